// LayerNorm over the last axis and its gradient.
#include <algorithm>

#include "kernels/sets.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

struct LayerPasses {
  void (*forward)(int64_t width, double eps, const void* const* in, void* const* out,
                  int64_t begin, int64_t end);
  void (*backward)(int64_t width, const void* const* in, void* dx, void* sums, int64_t begin,
                   int64_t end);
};

#define MG_ISA_FILE "kernels/layernorm.inl"
#include "kernels/each_set.h"

class Forward final : public Step {
 public:
  Forward(LayerPasses passes, int64_t rows, int64_t width, double eps)
      : p_(passes), rows_(rows), width_(width), eps_(eps) {}
  bool inplace(int input, int output) const override { return input == 0 && output == 0; }
  void run(const void* const* in, void* const* out, void*) override {
    parallel_for(rows_, 0.4 * static_cast<double>(width_), [&](int64_t begin, int64_t end) {
      p_.forward(width_, eps_, in, out, begin, end);
    });
  }

 private:
  LayerPasses p_;
  int64_t rows_, width_;
  double eps_;
};

// Rows are taken in fixed pieces whose sums are added in order: results do not depend on threads.
template <class T>
class Backward final : public Step {
 public:
  Backward(LayerPasses passes, int64_t rows, int64_t width)
      : p_(passes), rows_(rows), width_(width), pieces_(std::min<int64_t>(16, (rows + 63) / 64)) {}
  size_t scratch() const override {
    return static_cast<size_t>(pieces_ * 2 * width_) * sizeof(T);
  }
  bool inplace(int input, int output) const override { return input <= 1 && output == 0; }

  void run(const void* const* in, void* const* out, void* scratch) override {
    T* sums = static_cast<T*>(scratch);
    std::fill_n(sums, pieces_ * 2 * width_, T(0));
    const double cost = 0.6 * static_cast<double>(rows_ * width_ / pieces_);
    parallel_for(pieces_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        p_.backward(width_, in, out[0], sums + k * 2 * width_, rows_ * k / pieces_,
                    rows_ * (k + 1) / pieces_);
    });
    for (int half = 0; half < 2; ++half) {
      T* result = static_cast<T*>(out[1 + half]);
      for (int64_t i = 0; i < width_; ++i) {
        T total = 0;
        for (int64_t k = 0; k < pieces_; ++k) total += sums[(2 * k + half) * width_ + i];
        result[i] = total;
      }
    }
  }

 private:
  LayerPasses p_;
  int64_t rows_, width_, pieces_;
};

bool takes(const Desc& data, const std::vector<Desc>& in, const std::vector<Desc>& out,
           const Attrs& attrs) {
  const int64_t axis = attrs.get<int64_t>("axis", -1);
  if (data.size() == 0 || (axis != -1 && axis != data.ndim() - 1)) return false;
  for (const auto* list : {&in, &out})
    for (const Desc& one : *list)
      if (one.dtype != data.dtype) return false;
  return data.dtype == DType::f32 || data.dtype == DType::f64;
}

std::unique_ptr<Step> make_forward(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                   const Attrs& attrs) {
  const int64_t width = in[0].ndim() ? in[0].shape.back() : 0;
  if (!takes(in[0], in, out, attrs) || in[1].size() != width || in[2].size() != width)
    return nullptr;
  const double eps = attrs.get<double>("eps", 1e-5);
  const int64_t rows = in[0].size() / width;
  if (in[0].dtype == DType::f32)
    return std::make_unique<Forward>(MG_PICK(layer_passes<float>)(), rows, width, eps);
  return std::make_unique<Forward>(MG_PICK(layer_passes<double>)(), rows, width, eps);
}

std::unique_ptr<Step> make_backward(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                    const Attrs& attrs) {
  const int64_t width = in[1].ndim() ? in[1].shape.back() : 0;
  if (!takes(in[1], in, out, attrs) || in[2].size() != width) return nullptr;
  const int64_t rows = in[1].size() / width;
  if (in[1].dtype == DType::f32)
    return std::make_unique<Backward<float>>(MG_PICK(layer_passes<float>)(), rows, width);
  return std::make_unique<Backward<double>>(MG_PICK(layer_passes<double>)(), rows, width);
}

MG_KERNEL("LayerNorm", make_forward);
MG_KERNEL("_layer_norm_grad", make_backward);

}  // namespace
}  // namespace mg
