// Convolution of one image, channels first, as a product of the weights as they lie,
// (O, I * KH * KW), with the columns of the image, (I * KH * KW, positions).
//
// Nothing is turned. The columns of up to 64 positions at a time are gathered where the products
// find them in a near cache. With many positions each piece of work gathers for itself; with few
// of them all columns are gathered first, and the filters are shared out.
#include <algorithm>
#include <cstring>

#include "../parallel.h"
#include "conv_problem.h"
#include "sets.h"

namespace mg {
namespace {

// Taps gathered at a time, where columns are gathered for one piece of work: they fill 64 KB.
constexpr int64_t kDepth = 256;
// Numbers behind gathered columns and planes that may be written or read in vain.
constexpr int64_t kSlack = 16;
constexpr int64_t kMostWidth = 64;

struct Work {
  const ConvGeometry& geometry;
  const ConvEpilogue& after;
  const float *weight, *planes, *scale, *addend;
  float* out;
};

#define MG_ISA_FILE "kernels/conv_columns.inl"
#include "kernels/each_set.h"

const auto gather_of = MG_PICK(columns::gather);
const auto filters_of = MG_PICK(columns::filters);

class ColumnsConv final : public Step {
 public:
  explicit ColumnsConv(const ConvProblem& problem)
      : g_(problem.geometry), after_(problem.after), width_(MG_PICK(columns::width)()),
        vector_(MG_PICK(columns::vector)()) {
    panels_ = (g_.positions() + width_ - 1) / width_;
    together_ = team_size() > 1 && panels_ < 2 * team_size();
    pieces_ = (g_.taps() + kDepth - 1) / kDepth;
    planes_ = aligned(2 * g_.filters);
    columns_ = planes_ + aligned(g_.channels * g_.plane() + kSlack);
    panel_ = aligned(g_.taps() * kept(std::min(width_, g_.positions())) + kSlack * pieces_);
  }

  std::size_t scratch() const override {
    return (columns_ + (together_ ? panels_ * panel_ : 0)) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    float* const memory = static_cast<float*>(scratch);
    auto input = [in](int i) { return static_cast<const float*>(in[i]); };
    const Work work = {g_, after_, input(1), memory + planes_,
                       after_.scales(in, g_.filters, memory), after_.addend_of(in),
                       static_cast<float*>(out[0])};
    surround(input(0), memory + planes_);
    if (together_) in_two_goes(work, memory + columns_);
    else panel_by_panel(work);
  }

 private:
  // Numbers a tap takes in the columns of so many positions.
  int64_t kept(int64_t positions) const { return (positions + vector_ - 1) / vector_ * vector_; }
  int64_t positions_of(int64_t panel) const {
    return std::min(width_, g_.positions() - panel * width_);
  }

  void panel_by_panel(const Work& work) const {
    const double each = static_cast<double>(g_.filters * g_.taps() * width_) / 50.0;
    parallel_for(panels_, each, [&](int64_t begin, int64_t end) {
      alignas(64) float columns[kDepth * kMostWidth + kSlack];
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t place = panel * width_, count = positions_of(panel);
        for (int64_t k0 = 0; k0 < g_.taps(); k0 += kDepth) {
          const int64_t k = std::min(kDepth, g_.taps() - k0);
          gather_of(work, k0, k, place, count, columns);
          filters_of(work, columns, k0, k, 0, g_.filters, place, count);
        }
      }
    });
  }

  // First all columns, then the filters: a panel's pieces of kDepth taps lie kSlack apart.
  void in_two_goes(const Work& work, float* columns) const {
    const double column = static_cast<double>(kDepth * width_) * 0.3;
    parallel_for(panels_ * pieces_, column, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t panel = at / pieces_, k0 = at % pieces_ * kDepth, count = positions_of(panel);
        gather_of(work, k0, std::min(kDepth, g_.taps() - k0), panel * width_, count,
                  columns + panel * panel_ + k0 * kept(count) + at % pieces_ * kSlack);
      }
    });
    const int64_t blocks = (g_.filters + kBlock - 1) / kBlock;
    const double each = static_cast<double>(kBlock * g_.taps() * width_) / 50.0;
    parallel_for(panels_ * blocks, each, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t panel = at / blocks, f = at % blocks * kBlock, count = positions_of(panel);
        for (int64_t piece = 0; piece < pieces_; ++piece) {
          const int64_t k0 = piece * kDepth;
          filters_of(work, columns + panel * panel_ + k0 * kept(count) + piece * kSlack, k0,
                     std::min(kDepth, g_.taps() - k0), f, std::min(g_.filters, f + kBlock),
                     panel * width_, count);
        }
      }
    });
  }

  // The image with its padding.
  void surround(const float* x, float* planes) const {
    const double each = static_cast<double>(g_.plane()) * 0.2;
    parallel_for(g_.channels, each, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        float* to = planes + c * g_.plane();
        if (g_.pad_y + g_.pad_x > 0) std::fill_n(to, g_.plane(), 0.0f);
        const float* from = x + c * g_.height * g_.width;
        if (g_.pad_x == 0) {
          std::memcpy(to + g_.pad_y * g_.wide(), from, g_.height * g_.width * sizeof(float));
          continue;
        }
        for (int64_t y = 0; y < g_.height; ++y) {
          std::memcpy(to + (y + g_.pad_y) * g_.wide() + g_.pad_x, from + y * g_.width,
                      g_.width * sizeof(float));
        }
      }
    });
    std::fill_n(planes + g_.channels * g_.plane(), kSlack, 0.0f);
  }

  static constexpr int64_t kBlock = 24;  // filters of one piece of work

  ConvGeometry g_;
  ConvEpilogue after_;
  int64_t width_, vector_, panels_, pieces_;
  int64_t planes_, columns_, panel_;  // where things lie in the scratch memory
  bool together_;
};

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  const auto problem = read_conv(in, out[0], attrs, false);
  if (!problem || problem->geometry.batch != 1) return nullptr;
  return std::make_unique<ColumnsConv>(*problem);
}

constexpr int kBeforeOneDnn = 9;
MG_KERNEL("Convolution", make, kBeforeOneDnn);
MG_KERNEL("_conv_fused", make, kBeforeOneDnn);

}  // namespace
}  // namespace mg
