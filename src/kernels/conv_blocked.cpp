// Convolution of small images with any number of channels.
//
// Sixteen samples lie side by side: data is (N / 16, C, H, W, 16), as layout.py arranges it inside
// a graph. Every vector is then full, whatever the number of channels. In the words of the
// operator this is a three-dimensional convolution with a kernel (KH, KW, 1) over (H, W, 16).
// The gradient for the data is the same correlation of dy with the kernels turned around.
#include <algorithm>
#include <cstring>
#include <optional>

#include "../parallel.h"
#include "conv_blocked.h"
#include "sets.h"

namespace mg {
namespace {

// Rows `pitch` columns long hold the image and `pad_x` columns of zeros on either side; padding
// above and below is not stored.
struct Correlation {
  int64_t blocks, channels, height, pitch, filters, kh, kw, out_h, out_w, step, pad_y, pad_x;
  int64_t plane;  // floats of one output channel
  bool relu;
};

constexpr int kPooledKernel = 5;  // the size of kernels whose gradients are taken behind pooling

#define MG_ISA_FILE "kernels/conv_blocked.inl"
#include "kernels/each_set.h"

const auto correlate_row_of = MG_PICK(correlate_row);
const auto kernel_weights_of = MG_PICK(kernel_weights);
const auto pooled_row_of = MG_PICK(pooled_row);
const auto pooled_weights_of = MG_PICK(pooled_weights);

constexpr int kWidths[] = {12, 10, 8, 6, 5, 4, 2, 1};

// Filters of one pass: a width that divides them, or the largest that fits.
int width_for(int64_t filters, int64_t left) {
  for (int width : {10, 12, 8, 6, 5, 4}) {
    if (filters % width == 0) return width;
  }
  for (int width : kWidths) {
    if (width <= left) return width;
  }
  return 1;
}

struct Tile {
  int64_t first;
  int width;
};

std::vector<Tile> tiles_of(int64_t filters) {
  std::vector<Tile> tiles;
  for (int64_t f = 0; f < filters; f += tiles.back().width) {
    tiles.push_back({f, width_for(filters, filters - f)});
  }
  return tiles;
}

// Filters whose gradients one pass sums up: more of them where the kernel has few columns.
std::vector<Tile> tiles_of_weights(const Correlation& g) {
  std::vector<Tile> tiles;
  const int most = g.kw % 5 == 0 || g.kw % 5 == 4 ? 5 : 8;
  for (int64_t f = 0; f < g.filters; f += tiles.back().width) {
    int width = most;
    for (int less : {5, 4, 2, 1}) {
      if (f + width > g.filters) width = less;
    }
    tiles.push_back({f, width});
  }
  return tiles;
}

double nanoseconds(double flops) { return flops / 60.0; }

// Copies images (count, width, 16) into rows with zeros on either side.
void widen(const float* from, float* to, int64_t rows, int64_t width, int64_t pad) {
  const int64_t pitch = width + 2 * pad;
  parallel_for(rows, pitch * 4.0, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* at = to + row * pitch * kBlock;
      std::memset(at, 0, pad * kBlock * sizeof(float));
      std::memcpy(at + pad * kBlock, from + row * width * kBlock, width * kBlock * sizeof(float));
      std::memset(at + (pad + width) * kBlock, 0, pad * kBlock * sizeof(float));
    }
  });
}

class BlockedConv final : public Step {
 public:
  explicit BlockedConv(const BlockedProblem& p)
      : kind_(p.kind), biased_(p.biased), pooled_(p.pooled) {
    Correlation& g = geometry_;
    const bool back = kind_ == ConvKind::grad_data;
    const Desc &x = p.x, &w = p.w, &from = back ? p.y : x, &to = back ? x : p.y;
    g.blocks = x.shape[0];
    g.channels = from.shape[1];
    g.filters = to.shape[1];
    g.height = from.shape[2];
    width_ = from.shape[3];
    g.kh = w.shape[2];
    g.kw = w.shape[3];
    g.out_h = to.shape[2];
    g.out_w = to.shape[3];
    g.step = p.step;
    g.pad_y = back ? g.kh - 1 - p.pad_y : p.pad_y;
    g.pad_x = back ? g.kw - 1 - p.pad_x : p.pad_x;
    g.pitch = width_ + 2 * g.pad_x;
    g.plane = g.out_h * g.out_w * kBlock;
    g.relu = p.relu;
    tiles_ = kind_ == ConvKind::grad_weight ? tiles_of_weights(g) : tiles_of(g.filters);
  }

  std::size_t scratch() const override { return (widened() + kept() + kBlock) * sizeof(float); }

  void run(const void* const* in, void* const* out, void* scratch) override {
    const Correlation& g = geometry_;
    float* memory = static_cast<float*>(scratch);
    if (pooled_ && kind_ == ConvKind::grad_weight) return pooled_weights(in, out);
    const float* data = static_cast<const float*>(in[kind_ == ConvKind::grad_weight ? 1 : 0]);
    if (g.pad_x > 0) {
      widen(data, memory, g.blocks * g.channels * g.height, width_, g.pad_x);
      data = memory;
    }
    if (kind_ == ConvKind::grad_weight) {
      weights(data, static_cast<const float*>(in[0]), static_cast<float*>(out[0]),
              memory + widened());
      return;
    }
    float* weight = memory + widened();
    turn(static_cast<const float*>(in[1]), weight);
    correlate(data, weight, biased_ ? static_cast<const float*>(in[2]) : nullptr,
              static_cast<float*>(out[0]), pooled_ ? static_cast<uint8_t*>(out[1]) : nullptr);
  }

 private:
  std::size_t widened() const {
    const Correlation& g = geometry_;
    return g.pad_x > 0 ? g.blocks * g.channels * g.height * g.pitch * kBlock : 0;
  }
  // The weights turned, or the lanes of their gradients.
  std::size_t kept() const {
    const Correlation& g = geometry_;
    return g.filters * g.channels * g.kh * g.kw * (kind_ == ConvKind::grad_weight ? kBlock : 1);
  }
  double flops() const {
    const Correlation& g = geometry_;
    return 2.0 * g.blocks * g.filters * g.plane * g.channels * g.kh * g.kw;
  }

  // The weights tile by tile, the filters of a tile innermost; for the gradient of the data
  // filters and channels change places and the kernel is read from its end.
  void turn(const float* from, float* to) const {
    const Correlation& g = geometry_;
    const int64_t taps = g.kh * g.kw;
    for (const Tile& tile : tiles_) {
      for (int64_t c = 0; c < g.channels; ++c) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          for (int f = 0; f < tile.width; ++f) {
            const int64_t filter = tile.first + f;
            *to++ = kind_ == ConvKind::forward ? from[(filter * g.channels + c) * taps + tap]
                                           : from[(c * g.filters + filter) * taps + taps - 1 - tap];
          }
        }
      }
    }
  }

  void correlate(const float* in, const float* weight, const float* bias, float* out,
                 uint8_t* places) const {
    const Correlation& g = geometry_;
    const int64_t out_h = pooled_ ? g.out_h / 2 : g.out_h, out_w = pooled_ ? g.out_w / 2 : g.out_w;
    const int64_t tiles = static_cast<int64_t>(tiles_.size()), rows = tiles * out_h;
    const int64_t image = g.channels * g.height * g.pitch * kBlock;
    parallel_for(g.blocks * rows, nanoseconds(flops()) / (g.blocks * rows),
                 [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t b = item / rows, y = item % out_h;
        const Tile& tile = tiles_[item % rows / out_h];
        const float* own = weight + tile.first * g.channels * g.kh * g.kw;
        const float* add = bias ? bias + tile.first : nullptr;
        const int64_t at = ((b * g.filters + tile.first) * out_h * out_w + y * out_w) * kBlock;
        if (pooled_) {
          pooled_row_of(g, in + b * image, own, add, out + at, places + at, y, tile.width);
        } else {
          correlate_row_of(g, in + b * image, own, add, out + at, y, tile.width);
        }
      }
    });
  }

  void weights(const float* in, const float* dy, float* dw, float* sums) const {
    const Correlation& g = geometry_;
    const int64_t tiles = static_cast<int64_t>(tiles_.size()), taps = g.kh * g.kw;
    // channels are shared out too where there are few filters
    const int64_t parts = std::max<int64_t>(1, std::min(g.channels, 8 / tiles));
    parallel_for(tiles * parts, nanoseconds(flops()) / (tiles * parts),
                 [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const Tile& tile = tiles_[item / parts];
        const int64_t c0 = item % parts * g.channels / parts;
        const int64_t c1 = (item % parts + 1) * g.channels / parts;
        float* mine = sums + tile.first * g.channels * taps * kBlock;
        for (int64_t f = 0; f < tile.width; ++f) {
          std::fill_n(mine + (f * g.channels + c0) * taps * kBlock, (c1 - c0) * taps * kBlock, 0.0f);
        }
        kernel_weights_of(g, in, dy + tile.first * g.plane, mine, c0, c1, tile.width);
        for (int64_t f = 0; f < tile.width; ++f) {
          for (int64_t i = c0 * taps; i < c1 * taps; ++i) {
            const float* lanes = mine + (f * g.channels * taps + i) * kBlock;
            float total = 0.0f;
            for (int lane = 0; lane < kBlock; ++lane) total += lanes[lane];
            dw[(tile.first + f) * g.channels * taps + i] = total;
          }
        }
      }
    });
  }

  // dy, its places and data
  void pooled_weights(const void* const* in, void* const* out) const {
    const Correlation& g = geometry_;
    const int64_t kernels = g.filters * g.channels;
    parallel_for(kernels, nanoseconds(flops()) / (2.0 * kernels), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        pooled_weights_of(g, static_cast<const float*>(in[2]), static_cast<const float*>(in[0]),
                          static_cast<const uint8_t*>(in[1]), k / g.channels, k % g.channels,
                          static_cast<float*>(out[0]) + k * g.kh * g.kw);
      }
    });
  }

  ConvKind kind_;
  bool biased_, pooled_;
  Correlation geometry_{};
  int64_t width_ = 0;
  std::vector<Tile> tiles_;
};

std::vector<int64_t> three(const Attrs& attrs, const char* name, int64_t fallback) {
  auto given = attrs.get<std::vector<int64_t>>(name, {});
  return given.size() == 3 ? given : std::vector<int64_t>(3, fallback);
}

std::unique_ptr<Step> make(ConvKind kind, const Desc& x, const Desc& w, const Desc& y,
                           const Attrs& attrs, const Desc* bias, bool pooled = false) {
  for (const Desc* each : {&x, &w, &y}) {
    if (each->dtype != DType::f32 || each->ndim() != 5 || each->size() < 1) return nullptr;
  }
  if (bias && (bias->dtype != DType::f32 || bias->size() != w.shape[0])) return nullptr;
  const auto stride = three(attrs, "stride", 1), dilate = three(attrs, "dilate", 1),
             pad = three(attrs, "pad", 0);
  if (x.shape[4] != kBlock || y.shape[4] != kBlock || w.shape[4] != 1 || pad[2] != 0 ||
      stride[2] != 1 || stride[0] != stride[1] || dilate[0] != 1 || dilate[1] != 1 ||
      attrs.get<int64_t>("num_group", 1) != 1 ||
      attrs.get<std::string>("layout", "NCDHW") != "NCDHW") {
    return nullptr;
  }
  const std::string act = attrs.get<std::string>("act_type", "");
  if (!act.empty() && act != "relu") return nullptr;
  if (w.shape[0] != y.shape[1] || w.shape[1] != x.shape[1] || x.shape[0] != y.shape[0]) {
    return nullptr;
  }
  for (int axis : {0, 1}) {
    const int64_t k = w.shape[axis + 2];
    if ((x.shape[axis + 2] + 2 * pad[axis] - k) / stride[axis] + 1 != y.shape[axis + 2]) {
      return nullptr;
    }
    // turned around it is a correlation only if it takes one step at a time
    if (kind == ConvKind::grad_data && (stride[axis] != 1 || pad[axis] >= k)) return nullptr;
  }
  const BlockedProblem problem{kind,   x,    w, y, stride[0], pad[0], pad[1],
                               bias != nullptr, act == "relu", pooled};
  if (auto step = conv_by_points(problem)) return step;
  if (pooled && (stride[0] != 1 || pad[0] != 0 || pad[1] != 0 || kind == ConvKind::grad_data ||
                 (kind == ConvKind::grad_weight &&
                  (w.shape[2] != kPooledKernel || w.shape[3] != kPooledKernel)))) {
    return nullptr;
  }
  return std::make_unique<BlockedConv>(problem);
}

const Desc* bias_of(const std::vector<Desc>& in) { return in.size() > 2 ? &in[2] : nullptr; }

std::unique_ptr<Step> make_forward(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                   const Attrs& attrs) {
  if (in.size() < 2 || attrs.get<bool>("norm", false) || attrs.get<bool>("add", false)) {
    return nullptr;
  }
  return make(ConvKind::forward, in[0], in[1], out[0], attrs, bias_of(in));
}

std::unique_ptr<Step> make_grad_data(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  return make(ConvKind::grad_data, out[0], in[1], in[0], attrs, nullptr);
}

std::unique_ptr<Step> make_grad_weight(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                       const Attrs& attrs) {
  return make(ConvKind::grad_weight, in[1], out[0], in[0], attrs, nullptr);
}

// What was pooled: its shape before that, where it and its places are of one shape.
std::optional<Desc> whole(const Desc& pooled, const Desc& places) {
  if (places.dtype != DType::u8 || places.shape != pooled.shape || pooled.ndim() != 5) {
    return std::nullopt;
  }
  Desc y = pooled;
  y.shape[2] *= 2;
  y.shape[3] *= 2;
  return y;
}

std::unique_ptr<Step> make_pooled(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                  const Attrs& attrs) {
  const auto y = whole(out[0], out[1]);
  return y ? make(ConvKind::forward, in[0], in[1], *y, attrs, bias_of(in), true) : nullptr;
}

std::unique_ptr<Step> make_pooled_grad_data(const std::vector<Desc>& in,
                                            const std::vector<Desc>& out, const Attrs& attrs) {
  const auto y = whole(in[0], in[1]);
  return y ? make(ConvKind::grad_data, out[0], in[2], *y, attrs, nullptr, true) : nullptr;
}

std::unique_ptr<Step> make_pooled_grad_weight(const std::vector<Desc>& in,
                                              const std::vector<Desc>& out, const Attrs& attrs) {
  const auto y = whole(in[0], in[1]);
  return y ? make(ConvKind::grad_weight, in[2], out[0], *y, attrs, nullptr, true) : nullptr;
}

constexpr int kBeforeOneDnn = 10;
MG_KERNEL("_conv_pool", make_pooled);
MG_KERNEL("_conv_pool_grad_data", make_pooled_grad_data);
MG_KERNEL("_conv_pool_grad_weight", make_pooled_grad_weight);
MG_KERNEL("Convolution", make_forward, kBeforeOneDnn);
MG_KERNEL("_conv_fused", make_forward, kBeforeOneDnn);
MG_KERNEL("_conv_grad_data", make_grad_data, kBeforeOneDnn);
MG_KERNEL("_conv_grad_weight", make_grad_weight, kBeforeOneDnn);

}  // namespace
}  // namespace mg
