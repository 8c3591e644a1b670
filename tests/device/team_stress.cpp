// The team behind parallel_for without Python: every item done once, whoever calls, whatever the
// size, however often it changes. What the parts write is plain memory that only the team's order
// protects, so a thread sanitizer sees a part that is begun too early or waited for too little.
// Built and run by tests/device/test_engine_native.py and, with -fsanitize=thread, by
// tools/sanitize.sh thread.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "parallel.h"
#include "stress.h"

namespace {

using namespace mg;

// Two loops one after the other, the second over what the first wrote, in other pieces.
bool each_once(int64_t n, double cost, int64_t grain, int64_t mark) {
  std::vector<int64_t> made(n, 0), back(n, 0);
  std::atomic<bool> well{true};
  parallel_for(n, cost, [&](int64_t begin, int64_t end) {
    if (begin % grain != 0 || begin >= end || end > n) well = false;
    for (int64_t i = begin; i < end; ++i) made[i] += mark + i;
  }, grain);
  parallel_for(n, cost * 2, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) back[i] += made[n - 1 - i];
  });
  for (int64_t i = 0; i < n; ++i) well = well && back[i] == mark + n - 1 - i;
  return well;
}

void random_loops(unsigned seed, int count) {
  std::mt19937 random(seed);
  for (int i = 0; i < count; ++i) {
    const int64_t n = 1 + random() % (random() % 8 == 0 ? 5000 : 60);
    CHECK(each_once(n, random() % 4 == 0 ? 1.0 : 20000.0, 1 + random() % 9, random() % 1000));
  }
}

void every_size(unsigned seed) {
  for (int size : {2, 1, 4, 3, 8, 2}) {
    team_resize(size);
    CHECK(team_size() == size);
    random_loops(seed + size, 20);
  }
  team_resize(0);
  CHECK(team_size() == 1);
}

void several_callers(unsigned seed, int size) {
  team_resize(size);
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([=] { random_loops(seed * 4 + t, 40); });
  }
  for (std::thread& each : callers) each.join();
}

// Sizes change, helpers are woken and sent to rest while loops run.
void others_meddle(unsigned seed) {
  std::atomic<bool> ended{false};
  std::thread meddler([&] {
    std::mt19937 random(seed);
    while (!ended) {
      team_resize(1 + random() % 5);
      if (random() % 2 == 0) team_wake();
      else team_rest();
      (void)team_awake();
      std::this_thread::yield();
    }
  });
  std::thread caller([=] { random_loops(seed + 1, 60); });
  random_loops(seed + 2, 60);
  caller.join();
  ended = true;
  meddler.join();
}

// A part that shares out work itself does all of it: nobody waits for anybody.
void loops_in_loops() {
  team_resize(3);
  constexpr int64_t outer = 12, inner = 50;
  std::vector<int> counts(outer * inner, 0);
  parallel_for(outer, 1e6, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto me = std::this_thread::get_id();
      parallel_for(inner, 1e6, [&](int64_t from, int64_t to) {
        CHECK(std::this_thread::get_id() == me);
        for (int64_t k = from; k < to; ++k) ++counts[i * inner + k];
      });
    }
  });
  for (int count : counts) CHECK(count == 1);
}

// Helpers work while the process forks; the child has none and needs none.
void a_forked_child_works_alone(unsigned seed) {
  team_resize(3);
  random_loops(seed, 5);
  std::thread busy([=] { random_loops(seed + 1, 40); });
  const pid_t child = fork();
  if (child == 0) {
    bool well = team_size() == 1;
    for (int i = 0; i < 5; ++i) well = well && each_once(40, 1e5, 3, i);
    _exit(well ? 0 : 1);
  }
  busy.join();
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  for (int round = 0; round < rounds; ++round) {
    const auto seed = static_cast<unsigned>(round * 1000);
    every_size(seed);
    for (int size : {2, 4}) several_callers(seed, size);
    others_meddle(seed);
    loops_in_loops();
    a_forked_child_works_alone(seed);
  }
  std::printf("team: %d checks in %d rounds, all well\n", checks.load(), rounds);
  return 0;
}
