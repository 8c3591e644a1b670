// Work shared out between threads: a team of helpers that take what they find (src/team.cpp).
//
// The caller begins at once and does whatever no helper has taken, so a helper that sleeps, or
// whose core is busy with something else, costs nothing. oneDNN's primitives have OpenMP's threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace mg {

// Nanoseconds of work below which a second thread costs more than it brings: waking one of
// OpenMP's takes a few microseconds, and far more where its core is busy with something else.
constexpr double kWorthAThread = 20000.0;
// The same for a helper that is awake, and for one that has to be woken.
constexpr double kWorthAPart = 4000.0, kWorthWaking = 40000.0;
constexpr int64_t kPartsAThread = 4;

// How many of OpenMP's threads work of so many nanoseconds gets.
inline int threads_for(double nanoseconds) {
  int most = omp_in_parallel() ? 1 : omp_get_max_threads();
  return std::max(1, static_cast<int>(std::min<double>(most, nanoseconds / kWorthAThread)));
}

// How many threads may work at once, the caller among them.
int team_size();
void team_resize(int threads);
// Whether a helper would begin at once.
bool team_awake();
// Wake the helpers for work that follows soon; let them sleep, for others need the cores.
void team_wake();
void team_rest();
// part(self, 0), ..., part(self, parts - 1), each once, on any thread; returns when all have ended.
void team_run(void (*part)(void* self, int64_t number), void* self, int64_t parts);

// fn(begin, end) over [0, n) in pieces; at once where the work is small.
// `cost` is what one item takes in nanoseconds on one thread, roughly. Pieces begin at multiples
// of `grain`.
template <class F>
void parallel_for(int64_t n, double cost, F&& fn, int64_t grain = 1) {
  if (n <= 0) return;
  const double nanoseconds = static_cast<double>(n) * cost;
  const int64_t grains = (n + grain - 1) / grain;
  const int64_t most = std::min<int64_t>(grains, team_size() * kPartsAThread);
  const int64_t parts = std::min(most, static_cast<int64_t>(nanoseconds / kWorthAPart));
  if (team_size() <= 1 || parts <= 1 || (nanoseconds < kWorthWaking && !team_awake())) {
    fn(int64_t{0}, n);
    return;
  }
  auto part = [&](int64_t number) {
    const int64_t begin = grains * number / parts * grain;
    const int64_t end = std::min(n, grains * (number + 1) / parts * grain);
    if (begin < end) fn(begin, end);
  };
  using Part = decltype(part);
  team_run([](void* self, int64_t number) { (*static_cast<Part*>(self))(number); }, &part, parts);
}

}  // namespace mg
