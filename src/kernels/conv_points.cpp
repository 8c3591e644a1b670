// Convolution with 5 x 5 kernels by few multiplications, in blocks of sixteen samples.
//
// A tile of 8 x 8 numbers and a kernel become values of polynomials at 8 x 8 points; there the
// convolution is a product of matrices (filters, channels) x (channels, tiles) at each point. Its
// 4 x 4 outputs cost 64 multiplications a channel instead of 400. The gradients are the same
// steps backwards, so both use the values of dy. The price: errors of some 5e-6 of the largest
// value where direct sums have 5e-7, and a nan or infinity reaches all outputs of its tile.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "../parallel.h"
#include "conv_blocked.h"
#include "sets.h"
#include "winograd.h"

namespace mg {
namespace {

constexpr int kTaps = 5, kTile = 4, kSpan = kTile + kTaps - 1, kPoints = kSpan * kSpan;
constexpr int kFilters = 4;  // filters whose gradients are summed up together
// Floats of values that stay in the second cache beside the kernels'.
constexpr int64_t kValuesInCache = 1 << 17;
// Tiles over which the gradients of weights are summed up before they are folded, and filters.
constexpr int64_t kTilesAtOnce = 16, kGroup = 8;

struct Tiling {
  int64_t blocks, channels, filters, height, width, out_h, out_w, pad_y, pad_x;
  int64_t across, tiles;  // in a row of one image, in all
  bool relu, pooled;

  int64_t results() const { return out_h * out_w / (pooled ? 4 : 1); }
};

#define MG_ISA_FILE "kernels/conv_points.inl"
#include "kernels/each_set.h"

const auto data_tiles_of = MG_PICK(data_tiles);
const auto result_tiles_of = MG_PICK(result_tiles);
const auto write_results_of = MG_PICK(write_results);
const auto add_data_of = MG_PICK(add_data);
const auto kernel_values_of = MG_PICK(kernel_values);
const auto write_kernels_of = MG_PICK(write_kernels);
const auto product_of = MG_PICK(product_at_point);
const auto dots_of = MG_PICK(dots_at_point);

int64_t rounded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

Tiling tiling_of(const BlockedProblem& p) {
  Tiling g{};
  g.blocks = p.x.shape[0];
  g.channels = p.x.shape[1];
  g.height = p.x.shape[2];
  g.width = p.x.shape[3];
  g.filters = p.y.shape[1];
  g.out_h = p.y.shape[2];
  g.out_w = p.y.shape[3];
  g.pad_y = p.pad_y;
  g.pad_x = p.pad_x;
  g.across = (g.out_w + kTile - 1) / kTile;
  g.tiles = g.across * ((g.out_h + kTile - 1) / kTile);
  g.relu = p.relu;
  g.pooled = p.pooled;
  return g;
}

// Nanoseconds of work: products, and what it takes to come to the points and back.
double cost_of(const Tiling& g) {
  return static_cast<double>(g.blocks * g.tiles) *
         (g.channels * g.filters * kPoints / 3.0 + (g.channels + g.filters) * 100.0);
}

// Outputs, or the gradient of the data: one of them is the other with its steps turned around.
class Apply final : public Step {
 public:
  explicit Apply(const BlockedProblem& p)
      : g_(tiling_of(p)), back_(p.kind == ConvKind::grad_data), biased_(p.biased) {
    from_ = back_ ? g_.filters : g_.channels;
    to_ = back_ ? g_.channels : g_.filters;
    weight_row_ = rounded(to_, kBlock);
    const int64_t most = kValuesInCache / (from_ * kPoints * kBlock);
    at_once_ = std::max<int64_t>(1, std::min<int64_t>({4, g_.tiles, most}));
    const int64_t groups = (to_ + 11) / 12;
    group_ = (to_ + groups - 1) / groups;
    slots_ = std::min<int64_t>(g_.blocks, team_size());
  }

  std::size_t scratch() const override {
    return (weights() + slots_ * (values() + products())) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    // dy, (its places,) weight; or data, weight, bias
    const float* data = static_cast<const float*>(in[0]);
    const bool placed = back_ && g_.pooled;
    const uint8_t* read = placed ? static_cast<const uint8_t*>(in[1]) : nullptr;
    uint8_t* written = !back_ && g_.pooled ? static_cast<uint8_t*>(out[1]) : nullptr;
    const float* bias = biased_ ? static_cast<const float*>(in[2]) : nullptr;
    float* weight = static_cast<float*>(scratch);
    kernels(static_cast<const float*>(in[placed ? 2 : 1]), weight);
    std::atomic<int64_t> next{0};
    parallel_for(slots_, cost_of(g_) / slots_, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        float* mine = weight + weights() + slot * (values() + products());
        for (int64_t b; (b = next.fetch_add(1)) < g_.blocks;) {
          const int64_t from = b * from_ * plane(back_), to = b * to_ * plane(!back_);
          block(data + from, read ? read + from : nullptr, weight, bias,
                static_cast<float*>(out[0]) + to, written ? written + to : nullptr, mine);
        }
      }
    });
  }

 private:
  int64_t plane(bool result) const {
    return (result ? g_.results() : g_.height * g_.width) * kBlock;
  }
  // Floats from one point to the next, of the kernels, of what is read and of what is made.
  int64_t weight_step() const { return from_ * weight_row_; }
  int64_t value_step() const { return apart(from_ * at_once_ * kBlock); }
  int64_t product_step() const { return apart(group_ * at_once_ * kBlock); }
  int64_t weights() const { return kPoints * weight_step(); }
  int64_t values() const { return kPoints * value_step(); }
  int64_t products() const { return kPoints * product_step(); }

  // At each point (from, to), the kernels' values.
  void kernels(const float* w, float* weight) const {
    constexpr int64_t taps = kTaps * kTaps;
    const int64_t row = g_.channels * taps;
    parallel_for(from_, to_ * 20.0, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        kernel_values_of(w + k * (back_ ? row : taps), back_ ? taps : row, to_,
                         weight + k * weight_row_, weight_step());
      }
    });
  }

  void block(const float* data, const uint8_t* places, const float* weight, const float* bias,
             float* out, uint8_t* made_places, float* memory) const {
    const auto read = back_ ? result_tiles_of : data_tiles_of;
    if (back_) std::memset(out, 0, to_ * plane(false) * sizeof(float));
    float* made = memory + values();
    for (int64_t first = 0; first < g_.tiles; first += at_once_) {
      const int64_t count = std::min(at_once_, g_.tiles - first), n = count * kBlock;
      for (int64_t k = 0; k < from_; ++k) {
        read(g_, data + k * plane(back_), places ? places + k * plane(back_) : nullptr, first,
             count, memory + k * n, value_step());
      }
      for (int64_t r = 0; r < to_; r += group_) {
        const int64_t rows = std::min(group_, to_ - r);
        for (int64_t p = 0; p < kPoints; ++p) {
          product_of(weight + p * weight_step() + r, weight_row_, memory + p * value_step(),
                     made + p * product_step(), rows, from_, n);
        }
        for (int64_t i = 0; i < rows; ++i) {
          const float* values = made + i * n;
          const int64_t at = (r + i) * plane(!back_);
          if (back_) {
            add_data_of(g_, values, product_step(), out + at, first, count);
          } else {
            write_results_of(g_, values, product_step(), bias ? bias[r + i] : 0.0f, out + at,
                             made_places ? made_places + at : nullptr, first, count);
          }
        }
      }
    }
  }

  Tiling g_;
  bool back_, biased_;
  int64_t from_, to_, weight_row_, at_once_, group_, slots_;
};

class Weights final : public Step {
 public:
  explicit Weights(const BlockedProblem& p) : g_(tiling_of(p)) {
    at_once_ = std::min(kTilesAtOnce, g_.blocks * g_.tiles);
    across_ = MG_PICK(dot_channels)();
    columns_ = (g_.channels + across_ - 1) / across_;
    groups_ = (g_.filters + kGroup - 1) / kGroup;
    slots_ = std::min<int64_t>(groups_, team_size());
  }

  std::size_t scratch() const override {
    return kPoints * (step_of(g_.channels) + slots_ * step_of(kGroup) +
                      groups_ * kGroup * columns_ * across_) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    const float* dy = static_cast<const float*>(in[0]);
    const uint8_t* places = g_.pooled ? static_cast<const uint8_t*>(in[1]) : nullptr;
    const float* x = static_cast<const float*>(in[g_.pooled ? 2 : 1]);
    float* dw = static_cast<float*>(out[0]);
    float* data = static_cast<float*>(scratch);
    float* result = data + kPoints * step_of(g_.channels);
    float* sums = result + kPoints * slots_ * step_of(kGroup);
    const int64_t all = g_.blocks * g_.tiles;
    for (int64_t first = 0; first < all; first += at_once_) {
      const int64_t count = std::min(at_once_, all - first);
      parallel_for(g_.channels, count * 100.0, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          tiles(x, nullptr, g_.channels, c, g_.height * g_.width, data_tiles_of, first, count,
                data + c * at_once_ * kBlock, step_of(g_.channels));
        }
      });
      // a group's values stay in the second cache while they meet those of the channels
      std::atomic<int64_t> next{0};
      const double cost = cost_of(g_) * count / all / slots_;
      parallel_for(slots_, cost, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot) {
          float* mine = result + slot * kPoints * step_of(kGroup);
          for (int64_t group; (group = next.fetch_add(1)) < groups_;) {
            filters(dy, places, group * kGroup, data, mine, sums, first, count);
            if (first + count == all) write(group * kGroup, sums, dw);
          }
        }
      });
    }
  }

 private:
  int64_t step_of(int64_t rows) const { return apart(rows * at_once_ * kBlock); }
  // The sums of a group: for each filters of a vector and channels, at each point a vector.
  int64_t sums_of(int64_t f) const { return f * columns_ * across_ * kPoints; }

  // Of one channel of images, the values of `count` tiles of all blocks in a row.
  void tiles(const float* from, const uint8_t* places, int64_t channels, int64_t channel, int64_t positions,
             decltype(data_tiles_of) read, int64_t first, int64_t count, float* to,
             int64_t stride) const {
    while (count > 0) {
      const int64_t b = first / g_.tiles, at = first % g_.tiles;
      const int64_t some = std::min(count, g_.tiles - at);
      const int64_t plane = (b * channels + channel) * positions * kBlock;
      read(g_, from + plane, places ? places + plane : nullptr, at, some, to, stride);
      first += some, count -= some, to += some * kBlock;
    }
  }

  void filters(const float* dy, const uint8_t* places, int64_t f0, const float* data, float* mine,
               float* sums, int64_t first, int64_t count) const {
    const int64_t some = std::min<int64_t>(kGroup, g_.filters - f0), n = at_once_ * kBlock;
    for (int64_t f = 0; f < some; ++f) {
      tiles(dy, places, g_.filters, f0 + f, g_.results(), result_tiles_of, first, count,
            mine + f * n, step_of(kGroup));
    }
    const int64_t vector = kFilters * across_;
    for (int64_t p = 0; p < kPoints; ++p) {
      dots_of(mine + p * step_of(kGroup), data + p * step_of(g_.channels), some, g_.channels, n,
              count * kBlock, sums + sums_of(f0) + p * vector, kPoints * vector, first > 0);
    }
  }

  void write(int64_t f0, const float* sums, float* dw) const {
    const int64_t vector = kFilters * across_, end = std::min(f0 + kGroup, g_.filters);
    const float* from = sums + sums_of(f0);
    for (int64_t f = f0; f < end; f += kFilters) {
      for (int64_t c = 0; c < g_.channels; c += across_, from += kPoints * vector) {
        write_kernels_of(from, vector, dw, g_.channels, f, std::min(f + kFilters, end), c,
                         std::min(c + across_, g_.channels));
      }
    }
  }

  Tiling g_;
  int64_t at_once_, across_, columns_, groups_, slots_;
};

}  // namespace

std::unique_ptr<Step> conv_by_points(const BlockedProblem& p) {
  if (p.step != 1 || p.w.shape[2] != kTaps || p.w.shape[3] != kTaps || !winograd_wanted()) {
    return nullptr;
  }
  const Tiling g = tiling_of(p);
  // Direct sums run at nine tenths of the arithmetic units' speed.
  const double direct = 2.0 * kTaps * kTaps * g.blocks * kBlock * g.channels * g.filters *
                        g.out_h * g.out_w / 100.0;
  if (cost_of(g) > 0.8 * direct) return nullptr;
  if (p.kind == ConvKind::grad_weight) return std::make_unique<Weights>(p);
  return std::make_unique<Apply>(p);
}

}  // namespace mg
