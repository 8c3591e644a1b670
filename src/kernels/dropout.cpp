// Dropout and its gradient. The mask is one bit an element and is kept for backward.
#include "kernels/dropout.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

constexpr int64_t kPiece = 4096;  // elements whose bits are drawn and used while in the first cache

// How a mask that is the same along some axes lies over the data: axes from the outermost in,
// neighbours that behave alike joined.
struct Spread {
  std::vector<int64_t> sizes;
  std::vector<bool> shared;
  int64_t drawn = 1;  // elements of the mask

  Spread(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes) {
    const auto ndim = static_cast<int64_t>(shape.size());
    for (int64_t d = 0; d < ndim; ++d) {
      bool along = false;
      for (int64_t axis : axes) along = along || (axis < 0 ? axis + ndim : axis) == d;
      if (!along) drawn *= shape[d];
      if (shape[d] == 1) continue;
      if (!sizes.empty() && shared.back() == along) {
        sizes.back() *= shape[d];
      } else {
        sizes.push_back(shape[d]);
        shared.push_back(along);
      }
    }
    if (sizes.empty()) sizes = {1}, shared = {true};
  }
  bool plain() const { return sizes.size() == 1 && !shared[0]; }

  // fn(first element of a row, its first bit, whether the bit holds for the whole row)
  template <class F>
  void rows(int64_t begin, int64_t end, F&& fn) const {
    const size_t outer = sizes.size() - 1;
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row, bit = 0, stride = shared[outer] ? 1 : sizes[outer];
      for (size_t d = outer; d-- > 0;) {
        if (!shared[d]) {
          bit += rest % sizes[d] * stride;
          stride *= sizes[d];
        }
        rest /= sizes[d];
      }
      fn(row * sizes[outer], bit, static_cast<bool>(shared[outer]));
    }
  }
};

template <class T>
void apply_spread(const Spread& spread, const T* x, const uint8_t* mask, T* y, int64_t n, double p) {
  const T scale = static_cast<T>(1 / (1 - p));
  const int64_t width = spread.sizes.back();
  auto factor = [=](int64_t bit) { return (mask[bit / 8] >> (bit % 8)) & 1 ? scale : T(0); };
  parallel_for(n / width, 0.5 * static_cast<double>(width), [&](int64_t begin, int64_t end) {
    spread.rows(begin, end, [=](int64_t at, int64_t bit, bool one) {
      if (one) {
        const T whole = factor(bit);
        for (int64_t i = 0; i < width; ++i) y[at + i] = x[at + i] * whole;
      } else {
        for (int64_t i = 0; i < width; ++i) y[at + i] = x[at + i] * factor(bit + i);
      }
    });
  });
}

template <class T>
class Dropout final : public Step {
 public:
  Dropout(int64_t size, Spread spread, double p, bool active)
      : size_(size), spread_(std::move(spread)), p_(p), active_(active) {}

  bool draws() const override { return active_; }
  bool inplace(int input, int output) const override { return input == 0 && output == 0; }

  void run(const void* const* in, void* const* out, void*) override {
    const T* x = static_cast<const T*>(in[0]);
    T* y = static_cast<T*>(out[0]);
    auto* mask = static_cast<uint8_t*>(out[1]);
    if (!active_) {
      std::memset(mask, 255, static_cast<size_t>(mask_bytes(spread_.drawn)));
      if (x == y) return;
      parallel_for(size_, 0.3, [=](int64_t begin, int64_t end) {
        std::memcpy(y + begin, x + begin, static_cast<size_t>(end - begin) * sizeof(T));
      }, 1024);
      return;
    }
    const bool plain = spread_.plain();
    parallel_for(spread_.drawn, 0.7, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kPiece) {
        const int64_t stop = std::min(at + kPiece, end);
        draw_mask(seed, p_, at, stop, mask);
        if (plain) apply_mask(x, mask, y, at, stop, p_);
      }
    }, kPiece);
    if (!plain) apply_spread(spread_, x, mask, y, size_, p_);
  }

 private:
  int64_t size_;
  Spread spread_;
  double p_;
  bool active_;
};

template <class T>
class Gradient final : public Step {
 public:
  Gradient(int64_t size, Spread spread, double p)
      : size_(size), spread_(std::move(spread)), p_(p) {}
  bool inplace(int input, int output) const override { return input == 0 && output == 0; }
  void run(const void* const* in, void* const* out, void*) override {
    const T* dy = static_cast<const T*>(in[0]);
    const auto* mask = static_cast<const uint8_t*>(in[1]);
    T* dx = static_cast<T*>(out[0]);
    if (!spread_.plain()) return apply_spread(spread_, dy, mask, dx, size_, p_);
    parallel_for(size_, 0.3, [=](int64_t begin, int64_t end) {
      apply_mask(dy, mask, dx, begin, end, p_);
    }, 1024);
  }

 private:
  int64_t size_;
  Spread spread_;
  double p_;
};

template <template <class> class Kind, class... Rest>
std::unique_ptr<Step> of_type(DType dtype, Rest... rest) {
  if (dtype == DType::f32) return std::make_unique<Kind<float>>(rest...);
  if (dtype == DType::f64) return std::make_unique<Kind<double>>(rest...);
  return nullptr;
}

bool fits(const Desc& data, const Desc& mask, const Spread& spread) {
  return mask.dtype == DType::u8 && mask.size() == mask_bytes(spread.drawn) && data.size() > 0;
}

std::unique_ptr<Step> make_forward(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                   const Attrs& attrs) {
  const double p = attrs.get<double>("p", 0.5);
  const bool active = p > 0 && (attrs.get<bool>("training", false) ||
                                attrs.get<std::string>("mode", "training") == "always");
  if (in.size() != 1 || out.size() != 2 || (active && !(p < 1))) return nullptr;
  Spread spread(in[0].shape, attrs.get<std::vector<int64_t>>("axes", {}));
  if (!fits(in[0], out[1], spread)) return nullptr;
  return of_type<Dropout>(in[0].dtype, in[0].size(), spread, p, active);
}

std::unique_ptr<Step> make_gradient(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                    const Attrs& attrs) {
  const double p = attrs.get<double>("p", 0.5);
  if (in.size() != 2 || out[0].size() != in[0].size() || !(p < 1)) return nullptr;
  Spread spread(in[0].shape, attrs.get<std::vector<int64_t>>("axes", {}));
  if (!fits(in[0], in[1], spread)) return nullptr;
  return of_type<Gradient>(in[0].dtype, in[0].size(), spread, p);
}

MG_KERNEL("Dropout", make_forward);
MG_KERNEL("_dropout_grad", make_gradient);

}  // namespace
}  // namespace mg
