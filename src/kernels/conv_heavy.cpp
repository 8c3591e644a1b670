// Convolution of small images with more weights than data, channels last.
//
// oneDNN turns the weights at each call before it reads them, which for 512 channels at 4 x 4 and
// one sample is most of the time. Here the weights (O, I, KH, KW) are read once and as they lie:
// as the matrix (O, I * KH * KW) they meet the columns of the images, (I * KH * KW, positions),
// which are small and stay in the second cache.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../kernel.h"
#include "../parallel.h"
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

struct Geometry {
  int64_t batch, height, width, channels, filters, kh, kw, out_h, out_w;
  int64_t step_y, step_x, dilate_y, dilate_x, pad_y, pad_x;

  int64_t taps() const { return channels * kh * kw; }
  int64_t positions() const { return batch * out_h * out_w; }
  int64_t pitch() const { return (positions() + 15) / 16 * 16; }
  // one channel of an image with its padding
  int64_t wide() const { return width + 2 * pad_x; }
  int64_t plane() const { return wide() * (height + 2 * pad_y); }
};

struct Epilogue {  // out = act(norm(sums + bias) + addend)
  bool bias, norm, add, relu, fix_gamma;
  float eps;
};

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
  HeavyConv(const Geometry& geometry, const Epilogue& after) : g_(geometry), after_(after) {}

  std::size_t scratch() const override {
    return (g_.taps() * g_.pitch() + g_.channels * g_.plane() + 2 * g_.filters) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    float* const columns = static_cast<float*>(scratch);
    float* const planes = columns + g_.taps() * g_.pitch();
    float* const scale = planes + g_.channels * g_.plane();
    auto input = [in](int i) { return static_cast<const float*>(in[i]); };
    int next = 2;
    const float* bias = after_.bias ? input(next++) : nullptr;
    const bool scaled = after_.norm || after_.bias;
    if (after_.norm) {
      normalise(in + next, bias, scale);
      next += 4;
    } else if (bias) {
      std::fill_n(scale, g_.filters, 1.0f);
      std::copy_n(bias, g_.filters, scale + g_.filters);
    }
    const float* addend = after_.add ? input(next) : nullptr;
    gather(input(0), planes, columns);
    const int64_t positions = g_.positions(), blocks = (g_.pitch() + kTile - 1) / kTile;
    const int64_t items = (g_.filters + kFilters - 1) / kFilters * blocks;
    const double work = static_cast<double>(kFilters * std::min(kTile, g_.pitch()) * g_.taps());
    parallel_for(items, work / 40.0, [&](int64_t begin, int64_t end) {
      alignas(64) float sums[kFilters * kTile];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t f = item / blocks * kFilters, at = item % blocks * kTile;
        const int64_t filters = std::min(kFilters, g_.filters - f);
        tile_of(input(1) + f * g_.taps(), filters, g_.taps(), columns + at, g_.pitch(),
                std::min(kTile, g_.pitch() - at), sums);
        for (int64_t p = at; p < std::min(positions, at + kTile); ++p) {
          const int64_t place = p * g_.filters + f;
          finish(sums + p - at, filters, scaled ? scale + f : nullptr,
                 addend ? addend + place : nullptr, static_cast<float*>(out[0]) + place);
        }
      }
    });
  }

 private:
  // Scale and shift of each filter from gamma, beta, mean and variance (and the bias).
  void normalise(const void* const* in, const float* bias, float* scale) const {
    auto of = [in](int i) { return static_cast<const float*>(in[i]); };
    const float *gamma = of(0), *beta = of(1), *mean = of(2), *variance = of(3);
    for (int64_t i = 0; i < g_.filters; ++i) {
      const float inverse = 1.0f / std::sqrt(variance[i] + after_.eps);
      scale[i] = after_.fix_gamma ? inverse : inverse * gamma[i];
      scale[g_.filters + i] = beta[i] + ((bias ? bias[i] : 0.0f) - mean[i]) * scale[i];
    }
  }

  // columns[tap][position]: what each weight of a filter is multiplied with.
  void gather(const float* x, float* planes, float* columns) const {
    const Geometry& g = g_;
    const int64_t one = g.out_h * g.out_w, pitch = g.pitch();
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

  Geometry g_;
  Epilogue after_;
};

bool read_geometry(const std::vector<Desc>& in, const Desc& out, const Attrs& attrs, Geometry& g) {
  if (in.size() < 2 || in[0].ndim() != 4 || in[1].ndim() != 4 || out.ndim() != 4) return false;
  for (const Desc& each : in) {
    if (each.dtype != DType::f32 || each.size() < 1) return false;
  }
  if (attrs.get<std::string>("layout", "") != "NHWC/OIHW" ||
      attrs.get<int64_t>("num_group", 1) != 1) {
    return false;
  }
  auto two = [&attrs](const char* name, int64_t fallback) {
    auto given = attrs.get<std::vector<int64_t>>(name, {});
    return given.size() == 2 ? given : std::vector<int64_t>(2, fallback);
  };
  const auto &x = in[0].shape, &w = in[1].shape, &y = out.shape;
  const auto step = two("stride", 1), dilate = two("dilate", 1), pad = two("pad", 0);
  g = {x[0], x[1], x[2], x[3], w[0], w[2], w[3], y[1], y[2],
       step[0], step[1], dilate[0], dilate[1], pad[0], pad[1]};
  auto reach = [](int64_t size, int64_t kernel, int64_t step, int64_t dilate, int64_t pad) {
    return (size + 2 * pad - (kernel - 1) * dilate - 1) / step + 1;
  };
  return w[1] == g.channels && y[0] == g.batch && y[3] == g.filters && out.dtype == DType::f32 &&
         reach(g.height, g.kh, g.step_y, g.dilate_y, g.pad_y) == g.out_h &&
         reach(g.width, g.kw, g.step_x, g.dilate_x, g.pad_x) == g.out_w;
}

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  Geometry g{};
  if (!read_geometry(in, out[0], attrs, g)) return nullptr;
  const bool fused = attrs.has("norm");
  Epilogue after{};
  after.norm = attrs.get<bool>("norm", false);
  after.add = attrs.get<bool>("add", false);
  after.relu = attrs.get<std::string>("act_type", "") == "relu";
  after.fix_gamma = attrs.get<bool>("fix_gamma", false);
  after.eps = static_cast<float>(attrs.get<double>("eps", 0.0));
  after.bias = fused ? !attrs.get<bool>("no_bias", false) : in.size() > 2;
  for (std::size_t i = 2; i < in.size(); ++i) {
    const bool addend = after.add && i + 1 == in.size();
    if (addend ? in[i].shape != out[0].shape : in[i].size() != g.filters) return nullptr;
  }
  // Few positions leave vectors empty; where the data is larger, turning weights costs little.
  if (in[1].size() <= kHeavier * in[0].size() || g.positions() < 8 ||
      g.taps() * g.pitch() * 4 > kMostColumns) {
    return nullptr;
  }
  return std::make_unique<HeavyConv>(g, after);
}

constexpr int kBeforeOneDnn = 10;
MG_KERNEL("Convolution", make, kBeforeOneDnn);
MG_KERNEL("_conv_fused", make, kBeforeOneDnn);

}  // namespace
}  // namespace mg
