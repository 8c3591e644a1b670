// Work shared out between threads: one OpenMP pool, sized by OMP_NUM_THREADS.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace mg {

// Nanoseconds of work below which a second thread costs more than it brings: waking it takes a few
// microseconds, and far more where its core is busy with something else.
constexpr double kWorthAThread = 20000.0;

// How many threads work of so many nanoseconds gets.
inline int threads_for(double nanoseconds) {
  int most = omp_in_parallel() ? 1 : omp_get_max_threads();
  return std::max(1, static_cast<int>(std::min<double>(most, nanoseconds / kWorthAThread)));
}

// fn(begin, end) over [0, n) in pieces, one a thread; at once where the work is small.
// `cost` is what one item takes in nanoseconds on one thread, roughly. Pieces begin at multiples
// of `grain`.
template <class F>
void parallel_for(int64_t n, double cost, F&& fn, int64_t grain = 1) {
  if (n <= 0) return;
  const int threads = threads_for(static_cast<double>(n) * cost);
  if (threads <= 1) {
    fn(int64_t{0}, n);
    return;
  }
  const int64_t grains = (n + grain - 1) / grain;
#pragma omp parallel num_threads(threads)
  {
    const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    const int64_t begin = grains * me / team * grain;
    const int64_t end = std::min(n, grains * (me + 1) / team * grain);
    if (begin < end) fn(begin, end);
  }
}

}  // namespace mg
