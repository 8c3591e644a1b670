// 3 x 3 convolutions by Winograd's F(2 x 2, 3 x 3), as in conv_winograd.cpp, channels first: tiles
// lie side by side where there channels do. For predictions, whose images keep the user's layout.
//
// A strip of an image, some rows of tiles, becomes elements channel by channel; then each piece of
// work takes some filters at 64 tiles through products and results.
#include <algorithm>
#include <cstring>

#include "../parallel.h"
#include "conv_problem.h"
#include "sets.h"
#include "winograd.h"

namespace mg {
namespace {

struct Strip {  // of an image: `rows` rows of tiles from the row `first` on
  int64_t out_h, out_w, width;  // width: tiles of a panel
  int64_t across, pitch;  // of a row: its tiles in halves of vectors; numbers of the padded image
  int64_t first, rows;
  int64_t halves() const { return rows * across; }
};
struct Ending {  // act(sums * scale + shift + addend)
  const float *scale, *addend;
  int64_t filters;
  bool relu;
};

#define MG_ISA_FILE "kernels/conv_winograd_rows.inl"
#include "kernels/each_set.h"

const auto product_of = MG_PICK(winograd::product);
const auto kernels_of = MG_PICK(winograd::kernels);
const auto windows_of = MG_PICK(winograd_rows::windows);
const auto results_of = MG_PICK(winograd_rows::results);

constexpr int64_t kBlock = 24;  // filters of one piece of work
constexpr int64_t kTilesAtOnce = 1024;
constexpr int64_t kLeastTiles = 48;  // fewer do not pay for turning the weights

// Rows of tiles, tiles of a row with those that fill up its last vector.
int64_t down(const ConvGeometry& g) { return (g.out_h + 1) / 2; }
int64_t across(const ConvGeometry& g) { return (g.out_w + 15) / 16 * 8; }

class WinogradRows final : public Step {
 public:
  explicit WinogradRows(const ConvProblem& problem)
      : g_(problem.geometry), after_(problem.after), vector_(MG_PICK(winograd::vector)()),
        lanes_(team_size()) {
    strip_.out_h = g_.out_h;
    strip_.out_w = g_.out_w;
    strip_.width = MG_PICK(winograd::width)();
    strip_.across = across(g_) / (vector_ / 2);
    strip_.pitch = aligned(2 * across(g_) + 2);
    most_rows_ = std::clamp<int64_t>(kTilesAtOnce / across(g_), 1, down(g_));
    const int64_t tiles = most_rows_ * across(g_);
    turned_ = apart(g_.filters * g_.channels);
    data_ = apart(g_.channels * strip_.width);
    weights_ = aligned(2 * g_.filters);
    elements_ = weights_ + kSquare * turned_;
    lane_ = elements_ + (tiles + strip_.width - 1) / strip_.width * kSquare * data_;
    sums_ = apart(kBlock * strip_.width);
    a_lane_ = std::max(kSquare * sums_, (2 * most_rows_ + 2) * strip_.pitch);
  }

  std::size_t scratch() const override {
    return static_cast<std::size_t>(lane_ + lanes_ * a_lane_) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    float* const memory = static_cast<float*>(scratch);
    auto input = [in](int i) { return static_cast<const float*>(in[i]); };
    Ending end = {after_.scales(in, g_.filters, memory), after_.addend_of(in), g_.filters,
                  after_.relu};
    turn(input(1), memory + weights_);
    const int64_t image = g_.channels * g_.height * g_.width;
    const int64_t result = g_.filters * g_.out_h * g_.out_w;
    for (int64_t n = 0; n < g_.batch; ++n) {
      for (strip_.first = 0; strip_.first < down(g_); strip_.first += most_rows_) {
        strip_.rows = std::min(most_rows_, down(g_) - strip_.first);
        read(input(0) + n * image, memory);
        multiply(end, memory, static_cast<float*>(out[0]) + n * result);
      }
      if (end.addend) end.addend += result;
    }
  }

 private:
  // Elements of the weights, (filters, channels) each.
  void turn(const float* weight, float* to) const {
    const int64_t blocks = g_.channels / vector_;
    parallel_for(blocks * (g_.filters / vector_), static_cast<double>(vector_ * vector_) * 3.0,
                 [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t f = at / blocks * vector_, c = at % blocks * vector_;
        const int64_t place = f * g_.channels + c;
        kernels_of(weight + place * 9, g_.channels, true, false, to + place, turned_,
                   g_.channels);
      }
    });
  }

  // Elements of the strip: panels of tiles, in each for each element (channels, tiles).
  void read(const float* image, float* memory) const {
    constexpr int64_t kChannels = 4;
    const double cost = static_cast<double>(kChannels * strip_.halves() * vector_) * 3.0;
    in_lanes(lanes_, g_.channels / kChannels, cost, [&](int64_t lane, int64_t item) {
      float* const plane = memory + lane_ + lane * a_lane_;
      for (int64_t c = item * kChannels; c < (item + 1) * kChannels; ++c) {
        surround(image + c * g_.height * g_.width, plane);
        windows_of(strip_, plane, memory + elements_ + c * strip_.width, data_,
                   kSquare * data_);
      }
    });
  }

  // What the strip reads of one channel, with padding.
  void surround(const float* channel, float* plane) const {
    const int64_t top = strip_.first * 2 - g_.pad_y, count = strip_.pitch;
    for (int64_t y = 0; y < strip_.rows * 2 + 2; ++y, plane += count) {
      if (top + y < 0 || top + y >= g_.height) {
        std::fill_n(plane, count, 0.0f);
        continue;
      }
      const int64_t width = std::min(g_.width, count - g_.pad_x);
      std::fill_n(plane, g_.pad_x, 0.0f);
      std::memcpy(plane + g_.pad_x, channel + (top + y) * g_.width, width * sizeof(float));
      std::fill_n(plane + g_.pad_x + width, count - g_.pad_x - width, 0.0f);
    }
  }

  void multiply(const Ending& end, float* memory, float* out) const {
    const int64_t tiles = strip_.halves() * (vector_ / 2), width = strip_.width;
    const int64_t panels = (tiles + width - 1) / width;
    const int64_t blocks = (g_.filters + kBlock - 1) / kBlock;
    const double cost = static_cast<double>(kSquare * kBlock * width * g_.channels);
    in_lanes(lanes_, panels * blocks, cost / kFloatsANanosecond, [&](int64_t lane, int64_t item) {
      const int64_t panel = item / blocks, f = item % blocks * kBlock;
      const int64_t rows = std::min(kBlock, g_.filters - f);
      const float* data = memory + elements_ + panel * kSquare * data_;
      const float* weights = memory + weights_ + f * g_.channels;
      float* const sums = memory + lane_ + lane * a_lane_;
      for (int64_t e = 0; e < kSquare; ++e) {
        product_of({weights + e * turned_, rows, g_.channels, 1, g_.channels}, data + e * data_,
                   sums + e * sums_, width, width, false);
      }
      results_of(strip_, end, sums, sums_, width, panel, f, f + rows, out);
    });
  }

  ConvGeometry g_;
  ConvEpilogue after_;
  Strip strip_{};
  int64_t vector_, lanes_, most_rows_;
  int64_t turned_, data_, sums_;  // sizes of an element: of the weights, of a panel, of a block
  int64_t weights_, elements_, lane_, a_lane_;  // where things lie in the scratch memory
};

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  const auto problem = read_conv(in, out[0], attrs, false);
  if (!problem || !winograd_may(problem->geometry)) return nullptr;
  const ConvGeometry& g = problem->geometry;
  const int64_t tiles = down(g) * across(g);
  if (tiles < kLeastTiles || 3 * g.out_h * g.out_w < 2 * 4 * tiles) return nullptr;
  return std::make_unique<WinogradRows>(*problem);
}

constexpr int kBeforeColumns = 11;
MG_KERNEL("Convolution", make, kBeforeColumns);
MG_KERNEL("_conv_fused", make, kBeforeColumns);

}  // namespace
}  // namespace mg
