// 3 x 3 convolutions of many images, channels last, with 16 products for 4 results where the sums
// have 36: Winograd's F(2 x 2, 3 x 3).
//
// Tiles of 4 x 4 pixels become 16 elements, each of which is a matrix product with the same element
// of the weights: y = A' [(G g G') * (B' d B)] A (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015). The gradient of the data is such a convolution with turned weights; that
// of the weights is the transposed of the same formula, G' [(A dy A') * (B' d B)] G, so that it has
// the products over tiles. Matrices B and A hold 0 and 1, G 1/2: errors are those of plain sums.
//
// Where there are many tiles the weights are turned once, and every piece of work takes some tiles
// through all three stages within the second cache. Where there are more filters than tiles it is
// the images that are turned once, and a piece of work takes some filters.
#include <algorithm>

#include "../parallel.h"
#include "conv_problem.h"
#include "sets.h"
#include "winograd.h"

namespace mg {
namespace {

struct Tiling {  // of results into 2 x 2
  int64_t batch, down, across, out_h, out_w, filters;
  int64_t count() const { return batch * down * across; }
};
struct Images {  // that are read, (N, height, width, channels)
  const float *at, *zeros;
  int64_t height, width, channels, pad_y, pad_x;
};
struct Results {  // act(sums * scale + shift + addend)
  float* at;
  const float *scale, *addend;
  bool relu;
};
// Elements of tiles: `plane` apart, panels of so many channels one after the other, in each `rows`
// rows of one tile.
struct Elements {
  float* at;
  int64_t plane, panel, rows;
};

#define MG_ISA_FILE "kernels/conv_winograd.inl"
#include "kernels/each_set.h"

const auto product_of = MG_PICK(winograd::product);
const auto windows_of = MG_PICK(winograd::windows<4>);
const auto corners_of = MG_PICK(winograd::windows<2>);
const auto results_of = MG_PICK(winograd::results);
const auto kernels_of = MG_PICK(winograd::kernels);
const auto gradients_of = MG_PICK(winograd::gradients);

// Tiles that a piece of work takes at a time: products of whole rows, elements in the second cache.
constexpr int64_t kTiles = 48;

// What the convolution and both gradients share.
class Winograd : public Step {
 protected:
  Winograd(const ConvGeometry& g, bool back)
      : tiling_{g.batch, 0, 0, back ? g.height : g.out_h, back ? g.width : g.out_w,
                back ? g.channels : g.filters},
        images_{nullptr, nullptr, back ? g.out_h : g.height, back ? g.out_w : g.width,
                back ? g.filters : g.channels, back ? 2 - g.pad_y : g.pad_y,
                back ? 2 - g.pad_x : g.pad_x},
        width_(MG_PICK(winograd::width)()), vector_(MG_PICK(winograd::vector)()),
        lanes_(team_size()) {
    tiling_.down = (tiling_.out_h + 1) / 2;
    tiling_.across = (tiling_.out_w + 1) / 2;
  }

  int64_t panels() const { return (tiling_.filters + width_ - 1) / width_; }
  int64_t width_of(int64_t panel) const {
    return std::min(width_, tiling_.filters - panel * width_);
  }
  // So many operations take, in nanoseconds of one thread.
  double cost(int64_t tiles, int64_t filters) const {
    return static_cast<double>(kSquare * tiles * filters * images_.channels) / kFloatsANanosecond;
  }

  Tiling tiling_;
  Images images_;
  int64_t width_, vector_, lanes_;
};

class WinogradConv final : public Winograd {
 public:
  WinogradConv(const ConvProblem& problem, bool back)
      : Winograd(problem.geometry, back), after_(problem.after), back_(back),
        by_filters_(tiling_.filters > tiling_.count()) {
    const int64_t channels = images_.channels, most = std::min(width_, tiling_.filters);
    tiles_ = by_filters_ ? tiling_.count() : std::min(kTiles, tiling_.count());
    filters_ = by_filters_ ? most : tiling_.filters;
    data_ = apart(tiles_ * channels);
    sums_ = apart(tiles_ * filters_);
    weights_ = kSquare * channels * filters_;
    zeros_ = aligned(2 * tiling_.filters);
    shared_ = zeros_ + aligned(channels);
    lane_ = shared_ + (by_filters_ ? kSquare * data_ : weights_);
    a_lane_ = kSquare * sums_ + (by_filters_ ? weights_ : kSquare * data_);
  }

  std::size_t scratch() const override {
    return static_cast<std::size_t>(lane_ + lanes_ * a_lane_) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    float* const memory = static_cast<float*>(scratch);
    std::fill_n(memory + zeros_, images_.channels, 0.0f);
    images_.at = static_cast<const float*>(in[0]);
    images_.zeros = memory + zeros_;
    const float* weight = static_cast<const float*>(in[1]);
    const Results results = {static_cast<float*>(out[0]),
                             after_.scales(in, tiling_.filters, memory), after_.addend_of(in),
                             after_.relu};
    if (by_filters_) filter_by_filter(weight, results, memory);
    else tile_by_tile(weight, results, memory);
  }

 private:
  void tile_by_tile(const float* weight, const Results& results, float* memory) const {
    const int64_t channels = images_.channels, blocks = channels / vector_;
    const int64_t all_blocks = blocks * (tiling_.filters / vector_);
    float* const u = memory + shared_;
    parallel_for(all_blocks, static_cast<double>(vector_ * vector_) * 3.0,
                 [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        turn(weight, at / blocks * vector_, at % blocks * vector_, u);
      }
    });
    const int64_t groups = (tiling_.count() + tiles_ - 1) / tiles_;
    in_lanes(lanes_, groups, cost(tiles_, tiling_.filters), [&](int64_t lane, int64_t group) {
      float* const own = memory + lane_ + lane * a_lane_;
      const int64_t begin = group * tiles_, end = std::min(tiling_.count(), begin + tiles_);
      const Elements data = {own, data_, channels, tiles_};
      const Elements sums = {own + kSquare * data_, sums_, tiling_.filters, tiles_};
      windows_of(tiling_, images_, begin, end, 0, channels, data);
      for (int64_t e = 0; e < kSquare; ++e) {
        const Factor a = {data.at + e * data_, end - begin, channels, 1, channels};
        for (int64_t p = 0; p < panels(); ++p) {
          product_of(a, u + p * width_ * kSquare * channels + e * channels * width_of(p),
                     sums.at + e * sums_ + p * width_, width_of(p), tiling_.filters, false);
        }
      }
      results_of(tiling_, results, sums, begin, end, 0, tiling_.filters);
    });
  }

  void filter_by_filter(const float* weight, const Results& results, float* memory) const {
    const int64_t channels = images_.channels;
    const Elements data = {memory + shared_, data_, channels, tiles_};
    parallel_for(tiles_, static_cast<double>(channels) * 4.0, [&](int64_t begin, int64_t end) {
      const Elements some = {data.at + begin * channels, data_, channels, tiles_};
      windows_of(tiling_, images_, begin, end, 0, channels, some);
    });
    in_lanes(lanes_, panels(), cost(tiles_, width_), [&](int64_t lane, int64_t panel) {
      float* const u = memory + lane_ + lane * a_lane_;
      const int64_t first = panel * width_, width = width_of(panel);
      const Elements sums = {u + weights_, sums_, width, tiles_};
      for (int64_t f = 0; f < width; f += vector_) {
        for (int64_t c = 0; c < channels; c += vector_) {
          turn(weight, first + f, c, u - first * kSquare * channels);
        }
      }
      for (int64_t e = 0; e < kSquare; ++e) {
        product_of({data.at + e * data_, tiles_, channels, 1, channels}, u + e * channels * width,
                   sums.at + e * sums_, width, width, false);
      }
      results_of(tiling_, results, sums, 0, tiles_, first, first + width);
    });
  }

  // The weights of results [f, f + vector) for what is read, [c, c + vector), into their panel.
  void turn(const float* weight, int64_t f, int64_t c, float* u) const {
    const int64_t channels = images_.channels, panel = f / width_, width = width_of(panel);
    float* to = u + panel * width_ * kSquare * channels + c * width + f % width_;
    const int64_t row = back_ ? tiling_.filters : channels;  // of the weights: their channels
    const float* from = weight + (back_ ? c * row + f : f * row + c) * 9;
    kernels_of(from, row, back_, back_, to, channels * width, width);
  }

  ConvEpilogue after_;
  bool back_, by_filters_;
  int64_t tiles_, filters_;  // of one piece of work
  int64_t data_, sums_, weights_;  // sizes: planes of elements, turned weights
  int64_t zeros_, shared_, lane_, a_lane_;  // where things lie in the scratch memory
};

// Sums over tiles of the products of two images' elements: dy's channels side by side.
class WinogradWeights final : public Winograd {
 public:
  explicit WinogradWeights(const ConvGeometry& g)
      : Winograd(g, false), by_filters_(tiling_.filters > tiling_.count()) {
    const int64_t channels = images_.channels;
    grads_ = {nullptr, nullptr, g.out_h, g.out_w, g.filters, 0, 0};
    tiles_ = by_filters_ ? tiling_.count() : std::min(kTiles, tiling_.count());
    filters_ = by_filters_ ? std::min(width_, tiling_.filters) : tiling_.filters;
    data_ = apart(tiles_ * channels);
    dy_ = apart(tiles_ * filters_);
    sums_ = kSquare * channels * filters_;
    shared_ = aligned(std::max(channels, tiling_.filters));
    lane_ = shared_ + (by_filters_ ? kSquare * data_ : 0);
    a_lane_ = sums_ + kSquare * (dy_ + (by_filters_ ? 0 : data_));
  }

  std::size_t scratch() const override {
    return static_cast<std::size_t>(lane_ + lanes_ * a_lane_) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    float* const memory = static_cast<float*>(scratch);
    std::fill_n(memory, shared_, 0.0f);
    images_.zeros = grads_.zeros = memory;
    grads_.at = static_cast<const float*>(in[0]);
    images_.at = static_cast<const float*>(in[1]);
    float* const dw = static_cast<float*>(out[0]);
    if (by_filters_) filter_by_filter(dw, memory);
    else tile_by_tile(dw, memory);
  }

 private:
  // Every lane takes a stretch of tiles, always the same: so sums do not depend on who is faster.
  void tile_by_tile(float* dw, float* memory) const {
    const int64_t channels = images_.channels, count = tiling_.count();
    const int64_t groups = (count + tiles_ - 1) / tiles_, lanes = std::min(lanes_, groups);
    parallel_for(lanes, cost(count / lanes, tiling_.filters), [&](int64_t first, int64_t last) {
      for (int64_t lane = first; lane < last; ++lane) {
        float* const sums = memory + lane_ + lane * a_lane_;
        const Elements dy = {sums + sums_, dy_, width_, tiles_};
        const Elements data = {dy.at + kSquare * dy_, data_, width_, tiles_};
        const int64_t from = groups * lane / lanes * tiles_;
        const int64_t stop = std::min(count, groups * (lane + 1) / lanes * tiles_);
        for (int64_t begin = from; begin < stop; begin += tiles_) {
          const int64_t end = std::min(stop, begin + tiles_);
          windows_of(tiling_, images_, begin, end, 0, channels, data);
          corners_of(tiling_, grads_, begin, end, 0, tiling_.filters, dy);
          for (int64_t p = 0; p < panels(); ++p) {
            multiply(data, {dy.at + p * width_ * tiles_, dy_, width_, tiles_}, end - begin,
                     sums + p * width_ * kSquare * channels, width_of(p), begin > from);
          }
        }
      }
    });
    const int64_t blocks = channels / vector_;
    parallel_for(blocks * (tiling_.filters / vector_),
                 static_cast<double>(vector_ * vector_) * 3.0, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t f = at / blocks * vector_, c = at % blocks * vector_, panel = f / width_;
        deliver(memory + lane_ + panel * width_ * kSquare * channels, f, c, lanes, dw);
      }
    });
  }

  void filter_by_filter(float* dw, float* memory) const {
    const int64_t channels = images_.channels;
    const Elements data = {memory + shared_, data_, width_, tiles_};
    const int64_t stretches = (channels + width_ - 1) / width_;
    parallel_for(stretches, static_cast<double>(tiles_ * width_) * 4.0,
                 [&](int64_t begin, int64_t end) {
      const Elements some = {data.at + begin * width_ * tiles_, data_, width_, tiles_};
      windows_of(tiling_, images_, 0, tiles_, begin * width_, std::min(channels, end * width_),
                 some);
    });
    in_lanes(lanes_, panels(), cost(tiles_, width_), [&](int64_t lane, int64_t panel) {
      float* const sums = memory + lane_ + lane * a_lane_;
      const Elements dy = {sums + sums_, dy_, width_, tiles_};
      const int64_t first = panel * width_, width = width_of(panel);
      corners_of(tiling_, grads_, 0, tiles_, first, first + width, dy);
      multiply(data, dy, tiles_, sums, width, false);
      for (int64_t f = first; f < first + width; f += vector_) {
        for (int64_t c = 0; c < channels; c += vector_) deliver(sums, f, c, 1, dw);
      }
    });
  }

  // sums[element] (channels, width) = or += the images' elements' transposed by those of dy, of
  // one panel.
  void multiply(const Elements& data, const Elements& dy, int64_t tiles, float* sums,
                int64_t width, bool more) const {
    const int64_t channels = images_.channels;
    for (int64_t e = 0; e < kSquare; ++e) {
      for (int64_t c = 0; c < channels; c += width_) {
        const int64_t rows = std::min(width_, channels - c);
        product_of({data.at + e * data_ + c * tiles_, rows, 1, rows, tiles}, dy.at + e * dy_,
                   sums + (e * channels + c) * width, width, width, more);
      }
    }
  }

  // Gradients of weights [f, f + vector) by [c, c + vector) from the sums of their panel.
  void deliver(const float* sums, int64_t f, int64_t c, int64_t parts, float* dw) const {
    const int64_t channels = images_.channels, width = width_of(f / width_);
    gradients_of(sums + c * width + f % width_, channels * width, width, parts, a_lane_,
                 dw + (f * channels + c) * 9, channels);
  }

  Images grads_;
  bool by_filters_;
  int64_t tiles_, filters_;  // of one piece of work
  int64_t data_, dy_, sums_;  // sizes: planes of elements, all sums
  int64_t shared_, lane_, a_lane_;  // where things lie in the scratch memory
};

// A convolution of those for which this is faster (measured).
std::optional<ConvProblem> suited(const std::vector<Desc>& in, const Desc& out,
                                  const Attrs& attrs) {
  auto problem = read_conv(in, out, attrs, true);
  if (!problem || !winograd_may(problem->geometry)) return {};
  const ConvGeometry& g = problem->geometry;
  const int64_t tiles = g.batch * ((g.out_h + 1) / 2) * ((g.out_w + 1) / 2);
  return tiles >= kTiles && 3 * g.positions() >= 2 * 4 * tiles ? problem : std::nullopt;
}

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  const auto problem = suited(in, out[0], attrs);
  return problem ? std::make_unique<WinogradConv>(*problem, false) : nullptr;
}

std::unique_ptr<Step> make_grad_data(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  const auto problem = suited({out[0], in[1]}, in[0], attrs);
  return problem ? std::make_unique<WinogradConv>(*problem, true) : nullptr;
}

std::unique_ptr<Step> make_grad_weight(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                       const Attrs& attrs) {
  const auto problem = suited({in[1], out[0]}, in[0], attrs);
  return problem ? std::make_unique<WinogradWeights>(problem->geometry) : nullptr;
}

constexpr int kBeforeOneDnn = 8;
MG_KERNEL("Convolution", make, kBeforeOneDnn);
MG_KERNEL("_conv_fused", make, kBeforeOneDnn);
MG_KERNEL("_conv_grad_data", make_grad_data, kBeforeOneDnn);
MG_KERNEL("_conv_grad_weight", make_grad_weight, kBeforeOneDnn);

}  // namespace
}  // namespace mg
