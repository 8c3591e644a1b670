// 3 x 3 convolutions by Winograd's F(2 x 2, 3 x 3), as in conv_winograd.cpp, of one image with
// channels first and few tiles: the filters lie side by side.
//
// So few tiles do not pay for weights that are turned and written to memory. Here each piece of
// work takes some filters, and a few of their weights at a time become elements in the first
// cache, meet all tiles, and are forgotten, while the next ones are on their way from memory.
#include <algorithm>
#include <cstring>

#include "../parallel.h"
#include "conv_problem.h"
#include "sets.h"
#include "winograd.h"

namespace mg {
namespace {

struct Image {
  int64_t down, across, out_h, out_w, channels, filters;
  int64_t tiles;  // with those that fill up the last group
  int64_t wide() const { return 2 * across + 2; }  // pixels of a row that tiles read
  int64_t high() const { return 2 * down + 2; }
};
struct Ending {  // act(sums * scale + shift + addend)
  const float *scale, *addend;
  bool relu;
};

#define MG_ISA_FILE "kernels/conv_winograd_few.inl"
#include "kernels/each_set.h"

const auto windows_of = MG_PICK(winograd_few::windows);
const auto sums_of = MG_PICK(winograd_few::sums);
const auto results_of = MG_PICK(winograd_few::results);

constexpr int64_t kGroup = 4;  // tiles
constexpr int64_t kColumns = 12;  // numbers of a weight on its way to 16 elements
constexpr int64_t kMostTiles = 64;  // more pay for turning the weights once

class WinogradFew final : public Step {
 public:
  explicit WinogradFew(const ConvProblem& problem)
      : g_(problem.geometry), after_(problem.after), vector_(MG_PICK(winograd::vector)()),
        lanes_(team_size()) {
    image_ = {(g_.out_h + 1) / 2, (g_.out_w + 1) / 2, g_.out_h, g_.out_w, g_.channels, g_.filters,
              0};
    image_.tiles = (image_.down * image_.across + kGroup - 1) / kGroup * kGroup;
    for (int64_t p = 0; p < g_.height * g_.width; ++p) {
      place_.push_back((p / g_.width + g_.pad_y) * image_.wide() + p % g_.width + g_.pad_x);
    }
    data_ = kSquare * image_.tiles * vector_;
    elements_ = aligned(2 * g_.filters);
    lane_ = elements_ + g_.channels / vector_ * data_;
    results_ = kColumns * vector_ * vector_ + data_;
    const int64_t work = results_ + (g_.positions() + vector_) * vector_;
    a_lane_ = aligned(std::max(work, image_.high() * image_.wide() * vector_));
  }

  std::size_t scratch() const override {
    return static_cast<std::size_t>(lane_ + lanes_ * a_lane_) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    float* const memory = static_cast<float*>(scratch);
    const auto *data = static_cast<const float*>(in[0]), *weight = static_cast<const float*>(in[1]);
    const Ending end = {after_.scales(in, g_.filters, memory), after_.addend_of(in), after_.relu};
    read(data, memory);
    const double cost = static_cast<double>(data_ * g_.channels) / kFloatsANanosecond;
    in_lanes(lanes_, g_.filters / vector_, cost, [&](int64_t lane, int64_t item) {
      float *const near = memory + lane_ + lane * a_lane_,
            *const sums = near + kColumns * vector_ * vector_;
      const int64_t f = item * vector_;
      sums_of(image_, weight + f * g_.taps(), memory + elements_, near, sums);
      results_of(image_, end, sums, f, near + results_, static_cast<float*>(out[0]));
    });
  }

 private:
  // Elements of the image: channels by so many as a vector holds, in each (element, tile, channel).
  void read(const float* data, float* memory) const {
    const double cost = static_cast<double>(data_) / 8.0;
    in_lanes(lanes_, g_.channels / vector_, cost, [&](int64_t lane, int64_t item) {
      float* const pixels = memory + lane_ + lane * a_lane_;
      std::fill_n(pixels, image_.high() * image_.wide() * vector_, 0.0f);
      windows_of(image_, data + item * vector_ * g_.height * g_.width, place_.data(),
                 g_.height * g_.width, pixels, memory + elements_ + item * data_);
    });
  }

  ConvGeometry g_;
  ConvEpilogue after_;
  Image image_{};
  int64_t vector_, lanes_;
  std::vector<int64_t> place_;  // of each pixel among those that tiles read
  int64_t data_;  // numbers of the elements of `vector_` channels
  int64_t elements_, lane_, a_lane_;  // where things lie in the scratch memory
  int64_t results_;  // and in that of a lane
};

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  const auto problem = read_conv(in, out[0], attrs, false);
  if (!problem || !winograd_may(problem->geometry)) return nullptr;
  const ConvGeometry& g = problem->geometry;
  if (g.batch != 1 || (g.out_h + 1) / 2 * ((g.out_w + 1) / 2) > kMostTiles) return nullptr;
  return std::make_unique<WinogradFew>(*problem);
}

constexpr int kBeforeRows = 12;  // conv_winograd_rows.cpp
MG_KERNEL("Convolution", make, kBeforeRows);
MG_KERNEL("_conv_fused", make, kBeforeRows);

}  // namespace
}  // namespace mg
