// What the convolutions by Winograd's F(2 x 2, 3 x 3) share (conv_winograd.cpp says how they work),
// and some of it with those at points (conv_points.cpp).
#pragma once

#include <atomic>

#include "../parallel.h"
#include "conv_problem.h"

namespace mg {

constexpr int64_t kSquare = 16;  // elements of a tile of 4 x 4
constexpr double kFloatsANanosecond = 40.0;  // products that a core does, roughly

struct Factor {  // the left one of a product
  const float* at;
  int64_t rows, row, step, k;  // from one row to the next, from one column to the next
};

// Whether plain sums were not asked for: MINIGLUON_WINOGRAD is not 0.
bool winograd_wanted();
// Whether they were not, and a convolution is of the kind, with enough channels.
bool winograd_may(const ConvGeometry& g);

// Numbers from one element to the next: an odd number of cache lines, so that sixteen of them do
// not meet in the same set of a cache.
inline int64_t apart(int64_t floats) { return (floats + 15) / 16 / 2 * 32 + 16; }

// f(lane, item) for all items; lanes run at the same time, each takes the next item.
template <class F>
void in_lanes(int64_t lanes, int64_t items, double cost, F&& f) {
  std::atomic<int64_t> next{0};
  const double each = cost * static_cast<double>(items) / static_cast<double>(lanes);
  parallel_for(lanes, each, [&](int64_t begin, int64_t end) {
    for (int64_t lane = begin; lane < end; ++lane) {
      for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < items;) {
        f(lane, item);
      }
    }
  });
}

}  // namespace mg
