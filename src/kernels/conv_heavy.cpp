// Convolution of small images with more weights than data, channels last.
//
// oneDNN turns the weights at each call before it reads them, which for 512 channels at 4 x 4 and
// one sample is most of the time. Here the weights (O, I, KH, KW) are read once and as they lie:
// as the matrix (O, I * KH * KW) they meet the columns of the images, (I * KH * KW, positions),
// which are small and stay in the second cache.
#include <algorithm>
#include <cstring>

#include "../parallel.h"
#include "conv_problem.h"
#include "sets.h"

namespace mg {
namespace {

constexpr int64_t kFilters = 16, kTile = 64;  // of one piece of work: filters, positions

#define MG_ISA_FILE "kernels/conv_heavy.inl"
#include "kernels/each_set.h"

const auto tile_of = MG_PICK(heavy::tile);

// From how many weights for each number of the data this beats turning the weights (measured).
constexpr int64_t kHeavier = 16;
// What a cache next to a core holds.
constexpr int64_t kMostColumns = 3 << 19;

// Numbers from one weight's columns to the next's.
int64_t pitch_of(const ConvGeometry& g) { return aligned(g.positions()); }

// `count` numbers `step` apart.
void pick(const float* from, float* to, int64_t count, int64_t step) {
  if (step == 1 && count == 4) {
    std::memcpy(to, from, 4 * sizeof(float));
  } else if (step == 1 && count == 8) {
    std::memcpy(to, from, 8 * sizeof(float));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
}

class HeavyConv final : public Step {
 public:
  explicit HeavyConv(const ConvProblem& problem)
      : g_(problem.geometry), pitch_(pitch_of(g_)), after_(problem.after) {}

  std::size_t scratch() const override {
    return (g_.taps() * pitch_ + g_.channels * g_.plane() + 2 * g_.filters) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    float* const columns = static_cast<float*>(scratch);
    float* const planes = columns + g_.taps() * pitch_;
    auto input = [in](int i) { return static_cast<const float*>(in[i]); };
    const float* scale = after_.scales(in, g_.filters, planes + g_.channels * g_.plane());
    const float* addend = after_.addend_of(in);
    gather(input(0), planes, columns);
    const int64_t positions = g_.positions(), blocks = (pitch_ + kTile - 1) / kTile;
    const int64_t items = (g_.filters + kFilters - 1) / kFilters * blocks;
    const double work = static_cast<double>(kFilters * std::min(kTile, pitch_) * g_.taps());
    parallel_for(items, work / 40.0, [&](int64_t begin, int64_t end) {
      alignas(64) float sums[kFilters * kTile];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t f = item / blocks * kFilters, at = item % blocks * kTile;
        const int64_t filters = std::min(kFilters, g_.filters - f);
        tile_of(input(1) + f * g_.taps(), filters, g_.taps(), columns + at, pitch_,
                std::min(kTile, pitch_ - at), sums);
        for (int64_t p = at; p < std::min(positions, at + kTile); ++p) {
          const int64_t place = p * g_.filters + f;
          finish(sums + p - at, filters, scale ? scale + f : nullptr,
                 addend ? addend + place : nullptr, static_cast<float*>(out[0]) + place);
        }
      }
    });
  }

 private:
  // columns[tap][position]: what each weight of a filter is multiplied with.
  void gather(const float* x, float* planes, float* columns) const {
    const ConvGeometry& g = g_;
    const int64_t one = g.out_h * g.out_w, pitch = pitch_;
    parallel_for(g.channels, static_cast<double>(g.kh * g.kw * pitch) * 0.25,
                 [&](int64_t c0, int64_t c1) {
      std::fill(planes + c0 * g.plane(), planes + c1 * g.plane(), 0.0f);
      if (pitch > g.positions()) {
        std::fill(columns + c0 * g.kh * g.kw * pitch, columns + c1 * g.kh * g.kw * pitch, 0.0f);
      }
      for (int64_t n = 0; n < g.batch; ++n) {
        for (int64_t i = 0; i < g.height * g.width; ++i) {
          const float* from = x + (n * g.height * g.width + i) * g.channels;
          float* to = planes + (i / g.width + g.pad_y) * g.wide() + i % g.width + g.pad_x;
          for (int64_t c = c0; c < c1; ++c) to[c * g.plane()] = from[c];
        }
        for (int64_t c = c0; c < c1; ++c) {
          for (int64_t tap = 0; tap < g.kh * g.kw; ++tap) {
            const float* from = planes + c * g.plane() + tap / g.kw * g.dilate_y * g.wide() +
                                tap % g.kw * g.dilate_x;
            float* to = columns + (c * g.kh * g.kw + tap) * pitch + n * one;
            for (int64_t y = 0; y < g.out_h; ++y) {
              pick(from + y * g.step_y * g.wide(), to + y * g.out_w, g.out_w, g.step_x);
            }
          }
        }
      }
    });
  }

  // The sums of some filters at one position, kTile apart, to where they belong.
  void finish(const float* sums, int64_t filters, const float* scale, const float* addend,
              float* out) const {
    for (int64_t i = 0; i < filters; ++i) {
      float v = sums[i * kTile];
      if (scale) v = v * scale[i] + scale[g_.filters + i];
      if (addend) v += addend[i];
      if (after_.relu) v = v <= 0.0f ? 0.0f : v;
      out[i] = v;
    }
  }

  ConvGeometry g_;
  int64_t pitch_;
  ConvEpilogue after_;
};

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  const auto problem = read_conv(in, out[0], attrs, true);
  if (!problem) return nullptr;
  const ConvGeometry& g = problem->geometry;
  // Few positions leave vectors empty; where the data is larger, turning weights costs little.
  if (in[1].size() <= kHeavier * in[0].size() || g.positions() < 8 ||
      g.taps() * pitch_of(g) * 4 > kMostColumns) {
    return nullptr;
  }
  return std::make_unique<HeavyConv>(*problem);
}

constexpr int kBeforeOneDnn = 10;
MG_KERNEL("Convolution", make, kBeforeOneDnn);
MG_KERNEL("_conv_fused", make, kBeforeOneDnn);

}  // namespace
}  // namespace mg
