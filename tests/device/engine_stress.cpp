// The engine without Python: random dependency graphs against the same work done in order, and its
// promises about faults, priorities, items pushed from items, ends from elsewhere. Every check
// is written so that a thread sanitizer sees what it needs: variables are plain memory that only
// the engine's order protects. Built and run by tests/device/test_engine_native.py and, with
// -fsanitize=thread, by tools/sanitize.sh thread.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>

#include "engine/engine.h"
#include "stress.h"

namespace {

using namespace mg;

struct Call : Work {
  explicit Call(std::function<FaultPtr()> given) : fn(std::move(given)) {}
  FaultPtr run() override { return fn(); }
  std::function<FaultPtr()> fn;
};

std::unique_ptr<Work> call(std::function<void()> fn) {
  return std::make_unique<Call>([fn = std::move(fn)] {
    fn();
    return FaultPtr();
  });
}

std::unique_ptr<Work> fails(const char* text) {
  return std::make_unique<Call>([text] { return std::make_shared<NativeFault>(text); });
}

const auto far = [] { return Engine::Clock::now() + std::chrono::minutes(5); };

void read(Engine& engine, const VarPtr& var) {
  CHECK(engine.wait_var(*var, false, engine.ticket(), far()));
}

void wait_all(Engine& engine) { CHECK(engine.wait_all(far())); }

// One gate that an item waits at until somebody opens it.
class Gate {
 public:
  void open() {
    std::lock_guard<std::mutex> hold(mutex_);
    open_ = true;
    now_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    now_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable now_;
  bool open_ = false;
};

// A piece of work on plain numbers: target <- mix of sources.
struct Piece {
  std::vector<int> reads, writes;
  int priority;
  bool fails;
};

std::vector<Piece> random_pieces(std::mt19937& random, int variables, int count, bool faults) {
  std::vector<Piece> made;
  for (int i = 0; i < count; ++i) {
    Piece piece;
    for (int k = static_cast<int>(random() % 4); k > 0; --k) {
      piece.reads.push_back(static_cast<int>(random() % variables));
    }
    for (int k = 1 + static_cast<int>(random() % 2); k > 0; --k) {
      piece.writes.push_back(static_cast<int>(random() % variables));
    }
    piece.priority = static_cast<int>(random() % 7) - 3;
    piece.fails = faults && random() % 25 == 0;
    made.push_back(piece);
  }
  return made;
}

void apply(const Piece& piece, uint64_t number, std::vector<uint64_t>& memory) {
  uint64_t mix = number * 0x9e3779b97f4a7c15u;
  for (int v : piece.reads) mix = (mix ^ memory[v]) * 0xff51afd7ed558ccdu;
  for (int v : piece.writes) memory[v] = memory[v] * 31 + (mix ^ static_cast<uint64_t>(v));
}

void graphs(int threads, unsigned seed, bool faults) {
  std::mt19937 random(seed);
  const int variables = 2 + static_cast<int>(random() % 12), count = 400;
  const auto pieces = random_pieces(random, variables, count, faults);
  std::vector<uint64_t> expected(variables, 1), memory(variables, 1);
  std::vector<bool> lost(variables, false);
  int own = 0;  // faults that are not handed on from others
  for (int i = 0; i < count; ++i) {
    const Piece& piece = pieces[i];
    bool failed = false;
    for (int v : piece.reads) failed = failed || lost[v];
    for (int v : piece.writes) failed = failed || lost[v];
    own += piece.fails && !failed;
    failed = failed || piece.fails;
    if (!failed) apply(piece, static_cast<uint64_t>(i), expected);
    for (int v : piece.writes) lost[v] = failed;
  }
  Engine engine(threads);
  engine.limit(1 + random() % 40, 1000);
  std::vector<VarPtr> vars;
  for (int v = 0; v < variables; ++v) vars.push_back(std::make_shared<Var>());
  for (int i = 0; i < count; ++i) {
    const Piece& piece = pieces[i];
    std::vector<VarPtr> reads, writes;
    for (int v : piece.reads) reads.push_back(vars[v]);
    for (int v : piece.writes) writes.push_back(vars[v]);
    PushOptions options;
    options.priority = piece.priority;
    options.bytes = 17;
    CHECK(engine.wait_room(far()));
    engine.push(std::make_unique<Call>([&memory, &piece, i]() -> FaultPtr {
                  if (piece.fails) return std::make_shared<NativeFault>("meant");
                  apply(piece, static_cast<uint64_t>(i), memory);
                  return nullptr;
                }),
                reads, writes, options);
    if (random() % 50 == 0) {  // a reader in between sees what was pushed before
      const int v = static_cast<int>(random() % variables);
      read(engine, vars[v]);
      CHECK(!vars[v]->writing());
    }
  }
  wait_all(engine);
  CHECK(engine.open() == 0);
  int reported = 0;
  for (int v = 0; v < variables; ++v) {
    FaultPtr fault = engine.fault_of(*vars[v], false);
    CHECK((fault != nullptr) == lost[v]);
    if (!fault) CHECK(memory[v] == expected[v]);
  }
  for (const FaultPtr& fault : engine.unseen()) reported += fault->see();
  for (int v = 0; v < variables; ++v) CHECK(engine.fault_of(*vars[v], true) == nullptr);
  CHECK(engine.unseen().empty());
  CHECK(reported == own);
}

void reads_run_together() {
  Engine engine(2);
  auto var = std::make_shared<Var>();
  Gate first, second;
  engine.push(call([&] { first.open(), second.wait(); }), {var}, {});
  engine.push(call([&] { second.open(), first.wait(); }), {var}, {});
  wait_all(engine);  // one after the other they would never end
  ++checks;
}

void priorities() {
  Engine engine(1);
  Gate begun, gate;
  std::vector<int> order;
  engine.push(call([&] { begun.open(), gate.wait(); }), {}, {});
  begun.wait();
  for (int i = 0; i < 5; ++i) {
    PushOptions options;
    options.priority = i % 3;
    engine.push(call([&order, i] { order.push_back(i); }), {}, {}, options);
  }
  gate.open();
  wait_all(engine);
  CHECK((order == std::vector<int>{2, 1, 4, 0, 3}));
}

void write_waits_for_reads() {
  Engine engine(3);
  auto var = std::make_shared<Var>();
  Gate gate;
  int value = 1, seen[2] = {0, 0};
  for (int& each : seen) {
    engine.push(call([&] { gate.wait(), each = value; }), {var}, {});
  }
  engine.push(call([&] { value = 2; }), {}, {var});
  CHECK(!engine.wait_var(*var, true, engine.ticket(), Engine::Clock::now()));
  gate.open();
  CHECK(engine.wait_var(*var, true, engine.ticket(), far()));
  CHECK(seen[0] == 1 && seen[1] == 1 && value == 2);
}

void faults_are_handed_on_and_seen_once() {
  Engine engine(2);
  auto a = std::make_shared<Var>(), b = std::make_shared<Var>(), c = std::make_shared<Var>();
  bool ran = false;
  engine.push(fails("first"), {}, {a});
  engine.push(call([&] { ran = true; }), {a}, {b});
  engine.push(call([&] { ran = true; }), {}, {b});
  engine.push(call([] {}), {}, {c});
  wait_all(engine);
  CHECK(!ran);
  FaultPtr fault = engine.fault_of(*b, true);
  CHECK(fault != nullptr && fault->see());
  CHECK(engine.fault_of(*a, true) == nullptr && engine.fault_of(*c, true) == nullptr);
  CHECK(engine.unseen().empty());
  engine.push(call([&] { ran = true; }), {a}, {b});  // somebody knows: work goes on
  wait_all(engine);
  CHECK(ran);
  engine.push(std::make_unique<Call>([]() -> FaultPtr { throw std::bad_alloc(); }), {}, {});
  wait_all(engine);
  CHECK(engine.unseen().size() == 1);
}

void items_push_items_and_wait() {
  for (int threads : {0, 1, 2}) {
    Engine engine(threads);
    engine.limit(1, 1);
    auto a = std::make_shared<Var>(), b = std::make_shared<Var>();
    int value = 0, seen = -1;
    engine.push(call([&] {
                  engine.push(call([&] { value = 7; }), {}, {b});
                  CHECK(engine.wait_room(far()));
                  read(engine, b);
                  seen = value;
                  read(engine, a);  // what the item itself holds is not waited for
                  engine.push(call([&] { seen *= 2; }), {}, {a});
                  wait_all(engine);
                }),
                {}, {a});
    wait_all(engine);
    CHECK(seen == 14);
  }
}

void ends_from_elsewhere() {
  for (int threads : {0, 1}) {
    Engine engine(threads);
    auto var = std::make_shared<Var>();
    int value = 0, copy = 0;
    ItemPtr item = engine.begin({var}, "pull");
    CHECK(engine.wait_started(item, far()) && engine.pending(var.get()) == "pull");
    std::thread other([&] { value = 5, engine.end(item, nullptr); });
    engine.push(call([&] { copy = value; }), {var}, {});
    wait_all(engine);
    CHECK(copy == 5);
    other.join();
    item = engine.begin({var}, "pull");
    engine.end(item, std::make_shared<NativeFault>("lost"));
    engine.end(item, nullptr);  // the first end counts
    CHECK(engine.fault_of(*var, true) != nullptr);
  }
}

void many_threads_push() {
  Engine engine(2);
  std::vector<VarPtr> vars;
  for (int v = 0; v < 4; ++v) vars.push_back(std::make_shared<Var>());
  int sums[4] = {0, 0, 0, 0};
  std::vector<std::thread> pushers;
  for (int t = 0; t < 4; ++t) {
    pushers.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int v = (t + i) % 4;
        CHECK(engine.wait_room(far()));
        engine.push(call([&sums, v] { ++sums[v]; }), {}, {vars[v]});
        if (i % 37 == 0) read(engine, vars[v]);
      }
    });
  }
  for (std::thread& each : pushers) each.join();
  wait_all(engine);
  CHECK(sums[0] + sums[1] + sums[2] + sums[3] == 800 && sums[0] == 200);
}

void stopping_runs_what_is_ready() {
  int ran = 0;
  auto var = std::make_shared<Var>();
  Engine engine(1);
  ItemPtr never = engine.begin({var}, "never");
  for (int i = 0; i < 20; ++i) engine.push(call([&] { ++ran; }), {}, {});
  engine.push(call([&] { ran += 100; }), {var}, {});
  engine.stop();
  CHECK(ran == 20);
  engine.push(call([&] { ++ran; }), {}, {});
  CHECK(ran == 21);
}

void a_forked_child_has_an_engine_of_its_own() {
  static Engine engine(1);
  auto pending = std::make_shared<Var>(), read_only = std::make_shared<Var>();
  Gate gate;
  int value = 0;
  struct Slow : Call {
    using Call::Call;
    bool brief() const override { return false; }
  };
  PushOptions options;
  options.what = "slow work";
  engine.push(std::make_unique<Slow>([&] { return gate.wait(), value = 3, FaultPtr(); }),
              {read_only}, {pending}, options);
  engine.pause();
  engine.lock();
  const pid_t child = fork();
  if (child == 0) {
    engine.after_fork_in_child();
    int mine = 0;
    auto var = std::make_shared<Var>();
    bool well = engine.orphan(*pending) == "slow work" && !pending->writing() &&
                engine.orphan(*read_only).empty() && engine.open() == 0;
    engine.push(call([&] { mine = 9; }), {read_only}, {var});
    well = well && engine.wait_var(*var, false, engine.ticket(), far()) && mine == 9;
    _exit(well ? 0 : 1);
  }
  engine.unlock();
  engine.resume();
  gate.open();
  wait_all(engine);
  CHECK(value == 3 && engine.orphan(*pending).empty());
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  a_forked_child_has_an_engine_of_its_own();
  for (int round = 0; round < rounds; ++round) {
    for (int threads : {0, 1, 2, 4}) {
      graphs(threads, static_cast<unsigned>(round * 8 + threads), round % 2 == 1);
    }
    reads_run_together();
    priorities();
    write_waits_for_reads();
    faults_are_handed_on_and_seen_once();
    items_push_items_and_wait();
    ends_from_elsewhere();
    many_threads_push();
    stopping_runs_what_is_ready();
  }
  std::printf("engine: %d checks in %d rounds, all well\n", checks.load(), rounds);
  return 0;
}
