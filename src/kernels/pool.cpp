// Pooling (max, avg, sum) and its gradient, in one or two dimensions and either layout.
//
// All layouts are (outer, H, W, inner): channels in front have inner = 1, channels last the
// channels. Three dimensions are taken where the last one takes no part, as in the blocked layout
// (see conv_blocked.cpp), or where one window covers everything.
#include <algorithm>
#include <cstring>
#include <limits>

#include "../kernel.h"
#include "../parallel.h"
#include "sets.h"

namespace mg {
namespace {

enum class Kind { max, avg, sum };

// What of a window lies in the image.
struct Cut {
  int64_t y0, y1, x0, x1;
  float count;  // elements a mean is taken over
  bool padded;
};

struct Window {
  int64_t outer, height, width, inner, out_h, out_w;
  int64_t kh, kw, step_y, step_x, pad_y, pad_x;
  Kind kind;
  bool include_pad;
  bool apart, covers;  // no two windows overlap; together they meet every element
  bool two;            // windows of 2 by 2 side by side, all within the image

  inline __attribute__((always_inline)) Cut cut(int64_t y, int64_t x) const {
    const int64_t top = y * step_y - pad_y, left = x * step_x - pad_x;
    Cut c;
    c.y0 = top > 0 ? top : 0;
    c.x0 = left > 0 ? left : 0;
    c.y1 = top + kh < height ? top + kh : height;
    c.x1 = left + kw < width ? left + kw : width;
    c.padded = (c.y1 - c.y0) * (c.x1 - c.x0) != kh * kw;
    int64_t count = std::max<int64_t>(c.y1 - c.y0, 1) * std::max<int64_t>(c.x1 - c.x0, 1);
    if (include_pad) {
      const int64_t bottom = top + kh < height + pad_y ? top + kh : height + pad_y;
      const int64_t right = left + kw < width + pad_x ? left + kw : width + pad_x;
      count = std::max<int64_t>(bottom - top, 1) * std::max<int64_t>(right - left, 1);
    }
    c.count = static_cast<float>(count);
    return c;
  }
};

#define MG_ISA_FILE "kernels/pool.inl"
#include "kernels/each_set.h"

const auto forward_of = MG_PICK(pooling::forward);
const auto forward_two_of = MG_PICK(pooling::forward_two);
const auto backward_of = MG_PICK(pooling::backward);

int64_t count(const std::vector<int64_t>& shape, std::size_t from, std::size_t to) {
  int64_t n = 1;
  for (std::size_t i = from; i < to; ++i) n *= shape[i];
  return n;
}

bool read_window(const Desc& x, const Desc& y, const Attrs& attrs, Window& w) {
  if (x.dtype != DType::f32 || y.dtype != DType::f32 || x.size() < 1 || y.size() < 1) return false;
  if (x.ndim() < 3 || x.ndim() > 5 || y.ndim() != x.ndim()) return false;
  const std::string type = attrs.get<std::string>("pool_type", "max");
  if (type != "max" && type != "avg" && type != "sum") return false;
  w.kind = type == "max" ? Kind::max : type == "avg" ? Kind::avg : Kind::sum;
  w.include_pad = attrs.get<bool>("count_include_pad", true);
  const std::string layout = attrs.get<std::string>("layout", "NCHW");
  const bool last = layout.size() > 1 && layout[1] != 'C';
  const std::size_t rank = x.shape.size() - 2, first = last ? 1 : 2;
  std::vector<int64_t> size(x.shape.begin() + first, x.shape.begin() + first + rank);
  std::vector<int64_t> out(y.shape.begin() + first, y.shape.begin() + first + rank);
  auto kernel = attrs.get<std::vector<int64_t>>("kernel", {});
  auto step = attrs.get<std::vector<int64_t>>("stride", {});
  auto pad = attrs.get<std::vector<int64_t>>("pad", {});
  w.outer = last ? x.shape[0] : x.shape[0] * x.shape[1];
  w.inner = last ? x.shape.back() : 1;
  if (attrs.get<bool>("global_pool", false)) {  // one window: as if the image were one row
    kernel = size = {1, count(size, 0, rank)};
    out = step = {1, 1};
    pad = {0, 0};
  }
  if (step.empty()) step.assign(kernel.size(), 1);
  if (pad.empty()) pad.assign(kernel.size(), 0);
  if (kernel.size() != size.size() || step.size() != size.size() || pad.size() != size.size()) {
    return false;
  }
  if (size.size() == 3) {
    if (kernel[2] != 1 || step[2] != 1 || pad[2] != 0) return false;
    w.inner *= size[2];
    if (last && size[2] != 1) return false;
    for (auto* each : {&size, &out, &kernel, &step, &pad}) each->pop_back();
  } else if (size.size() == 1) {
    for (auto* each : {&size, &out, &kernel, &step}) each->insert(each->begin(), 1);
    pad.insert(pad.begin(), 0);
  }
  w.height = size[0], w.width = size[1], w.out_h = out[0], w.out_w = out[1];
  w.kh = kernel[0], w.kw = kernel[1], w.step_y = step[0], w.step_x = step[1];
  w.pad_y = pad[0], w.pad_x = pad[1];
  w.apart = w.kh <= w.step_y && w.kw <= w.step_x;
  w.covers = w.kh == w.step_y && w.kw == w.step_x && w.out_h * w.kh == w.height &&
             w.out_w * w.kw == w.width && w.pad_y == 0 && w.pad_x == 0;
  w.two = w.kh == 2 && w.kw == 2 && w.step_y == 2 && w.step_x == 2 && w.pad_y == 0 &&
          w.pad_x == 0 && 2 * w.out_h <= w.height && 2 * w.out_w <= w.width;
  // every window must meet the image (rounding up can make one that does not)
  return (w.out_h - 1) * w.step_y - w.pad_y < w.height &&
         (w.out_w - 1) * w.step_x - w.pad_x < w.width && w.pad_y < w.kh && w.pad_x < w.kw;
}

class Pool final : public Step {
 public:
  explicit Pool(const Window& window) : window_(window) {}

  void run(const void* const* in, void* const* out, void*) override {
    const Window& w = window_;
    const float* from = static_cast<const float*>(in[0]);
    float* to = static_cast<float*>(out[0]);
    const int64_t image = w.height * w.width * w.inner, result = w.out_h * w.out_w * w.inner;
    const double cost = static_cast<double>(image) * (w.inner < 8 ? 1.0 : 0.2);
    const bool pairs = w.two && w.inner == 1 && w.kind == Kind::max;
    const auto run = pairs ? forward_two_of : forward_of;
    parallel_for(w.outer, cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run(w, from + i * image, to + i * result);
    });
  }

 private:
  Window window_;
};

class PoolGrad final : public Step {
 public:
  explicit PoolGrad(const Window& window) : window_(window) {}

  void run(const void* const* in, void* const* out, void*) override {
    const Window& w = window_;
    const float *dy = static_cast<const float*>(in[0]), *data = static_cast<const float*>(in[1]),
                *best = static_cast<const float*>(in[2]);
    float* dx = static_cast<float*>(out[0]);
    const int64_t image = w.height * w.width * w.inner, result = w.out_h * w.out_w * w.inner;
    const double cost = static_cast<double>(image) * (w.inner < 8 ? 1.0 : 0.3);
    parallel_for(w.outer, cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        backward_of(w, dy + i * result, data + i * image, best + i * result, dx + i * image);
      }
    });
  }

 private:
  Window window_;
};

std::unique_ptr<Step> make_pool(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                const Attrs& attrs) {
  Window window{};
  if (!read_window(in[0], out[0], attrs, window)) return nullptr;
  return std::make_unique<Pool>(window);
}

std::unique_ptr<Step> make_pool_grad(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  Window window{};
  if (!read_window(out[0], in[0], attrs, window) || in[1].size() != out[0].size()) return nullptr;
  return std::make_unique<PoolGrad>(window);
}

MG_KERNEL("Pooling", make_pool);
MG_KERNEL("_pool_grad", make_pool_grad);

}  // namespace
}  // namespace mg
