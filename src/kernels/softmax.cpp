// softmax, log_softmax, SoftmaxActivation, SoftmaxOutput and their gradients.
#include <algorithm>
#include <type_traits>

#include "kernels/places.h"
#include "kernels/rows.h"
#include "kernels/sets.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

#define MG_ISA_FILE "kernels/softmax.inl"
#include "kernels/each_set.h"

enum Kind { forward, forward_log, backward, backward_log };

class Softmaxes final : public Step {
 public:
  Softmaxes(RowPass pass, const Rows& rows) : pass_(pass), rows_(rows) {}
  bool inplace(int, int) const override { return true; }
  void run(const void* const* in, void* const* out, void*) override {
    parallel_for(rows_.outer, 1.0 * static_cast<double>(rows_.count * rows_.inner),
                 [&](int64_t begin, int64_t end) { pass_(rows_, in, out, begin, end); });
  }

 private:
  RowPass pass_;
  Rows rows_;
};

Rows rows_along(const Desc& data, int64_t axis) {
  Rows rows;
  if (axis < 0) axis += data.ndim();
  for (int i = 0; i < data.ndim(); ++i) {
    int64_t& part = i < axis ? rows.outer : i == axis ? rows.count : rows.inner;
    part *= data.shape[static_cast<size_t>(i)];
  }
  return rows;
}

std::unique_ptr<Step> make(Kind kind, const Desc& data, const Desc& out, const Rows& rows) {
  if (data.size() == 0 || out.dtype != data.dtype) return nullptr;
  if (data.dtype == DType::f32)
    return std::make_unique<Softmaxes>(MG_PICK(softmax_pass<float>)(kind), rows);
  if (data.dtype == DType::f64)
    return std::make_unique<Softmaxes>(MG_PICK(softmax_pass<double>)(kind), rows);
  return nullptr;
}

template <Kind kind>
std::unique_ptr<Step> make_softmax(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                   const Attrs& attrs) {
  const size_t inputs = kind == backward || kind == backward_log ? 2 : 1;
  if (in.size() != inputs || attrs.get<double>("temperature", 1.0) != 1.0) return nullptr;
  return make(kind, in[0], out[0], rows_along(in[0], attrs.get<int64_t>("axis", -1)));
}

std::unique_ptr<Step> make_activation(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                      const Attrs& attrs) {
  const bool channel = attrs.get<std::string>("mode", "instance") == "channel";
  return make(forward, in[0], out[0], rows_along(in[0], channel ? 1 : -1));
}

// -- SoftmaxOutput --------------------------------------------------------------------------------

// The data as (rows, classes, places).
Rows class_rows(const Desc& data, const Attrs& attrs) {
  if (attrs.get<bool>("multi_output", false)) return rows_along(data, 1);
  if (attrs.get<bool>("preserve_shape", false)) return rows_along(data, -1);
  Rows rows;
  rows.outer = data.shape[0];
  rows.count = data.size() / std::max<int64_t>(rows.outer, 1);
  return rows;
}

std::vector<int64_t> label_shape(const Desc& data, const Attrs& attrs) {
  std::vector<int64_t> shape = data.shape;
  if (attrs.get<bool>("multi_output", false)) shape.erase(shape.begin() + 1);
  else if (attrs.get<bool>("preserve_shape", false)) shape.pop_back();
  else shape.resize(1);
  return shape;
}

std::unique_ptr<Step> make_output(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                  const Attrs& attrs) {
  if (in[0].ndim() < 2 || in[1].shape != label_shape(in[0], attrs)) return nullptr;
  return make(forward, in[0], out[0], class_rows(in[0], attrs));
}

// Probabilities minus one at the label, scaled; L: the type of the labels.
template <class T, class L>
class OutputGrad final : public Step {
 public:
  OutputGrad(const Rows& rows, const Attrs& attrs) : rows_(rows) {
    const double alpha = attrs.get<double>("smooth_alpha", 0);
    hit_ = static_cast<T>(1.0 - alpha);
    other_ = alpha != 0 ? static_cast<T>(alpha / static_cast<double>(rows.count - 1)) : T(0);
    ignore_ = static_cast<T>(attrs.get<double>("ignore_label", -1));
    use_ignore_ = attrs.get<bool>("use_ignore", false);
    scale_ = attrs.get<double>("grad_scale", 1);
    const auto by = attrs.get<std::string>("normalization", "null");
    valid_ = by == "valid";
    count_ = by == "batch" ? static_cast<double>(rows.outer) : 1.0;
    if (attrs.get<bool>("multi_output", false) && !valid_) count_ *= static_cast<double>(rows.inner);
  }
  bool inplace(int input, int) const override { return input == 0; }

  void run(const void* const* in, void* const* out, void*) override {
    const T* p = static_cast<const T*>(in[0]);
    const L* label = static_cast<const L*>(in[1]);
    T* grad = static_cast<T*>(out[0]);
    double count = count_;
    if (valid_) {
      int64_t valid = 0;
      for (int64_t i = 0; i < rows_.outer * rows_.inner; ++i) valid += static_cast<T>(label[i]) != ignore_;
      count = static_cast<double>(std::max<int64_t>(valid, 1));
    }
    const T scale = static_cast<T>(scale_ / count);
    for (int64_t o = 0; o < rows_.outer; ++o)
      for (int64_t c = 0; c < rows_.count; ++c) {
        const int64_t at = (o * rows_.count + c) * rows_.inner;
        for (int64_t i = 0; i < rows_.inner; ++i) {
          const T number = static_cast<T>(label[o * rows_.inner + i]);
          T g = p[at + i] - (static_cast<T>(c) == number ? hit_ : other_);
          if (use_ignore_ && number == ignore_) g *= T(0);
          grad[at + i] = g * scale;
        }
      }
  }

 private:
  Rows rows_;
  T hit_, other_, ignore_;
  bool use_ignore_, valid_;
  double scale_, count_;
};

template <class T>
std::unique_ptr<Step> output_grad(DType label, const Rows& rows, const Attrs& attrs) {
  switch (label) {
    case DType::f32: return std::make_unique<OutputGrad<T, float>>(rows, attrs);
    case DType::f64: return std::make_unique<OutputGrad<T, double>>(rows, attrs);
    case DType::i32: return std::make_unique<OutputGrad<T, int32_t>>(rows, attrs);
    case DType::i64: return std::make_unique<OutputGrad<T, int64_t>>(rows, attrs);
    default: return nullptr;
  }
}

std::unique_ptr<Step> make_output_grad(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                       const Attrs& attrs) {
  if (in[0].ndim() < 2 || in[0].size() == 0 || out[0].dtype != in[0].dtype ||
      in[1].shape != label_shape(in[0], attrs))
    return nullptr;
  const Rows rows = class_rows(in[0], attrs);
  if (in[0].dtype == DType::f32) return output_grad<float>(in[1].dtype, rows, attrs);
  if (in[0].dtype == DType::f64) return output_grad<double>(in[1].dtype, rows, attrs);
  return nullptr;
}

// Inputs: a gradient and a number for each row, the result of log_softmax.
template <class T>
class PickedBack final : public Step {
 public:
  using Pass = void (*)(int64_t count, const void* y, void* dx, double grad, int64_t place);
  PickedBack(Pass pass, PlaceOf place, const Rows& rows)
      : pass_(pass), place_(place), rows_(rows) {}
  bool inplace(int input, int) const override { return input == 2; }
  void run(const void* const* in, void* const* out, void*) override {
    parallel_for(rows_.outer, 0.7 * static_cast<double>(rows_.count),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r)
                     pass_(rows_.count, static_cast<const T*>(in[2]) + r * rows_.count,
                           static_cast<T*>(out[0]) + r * rows_.count,
                           static_cast<double>(static_cast<const T*>(in[0])[r]),
                           place_(in[1], r, rows_.count));
                 });
  }

 private:
  Pass pass_;
  PlaceOf place_;
  Rows rows_;
};

std::unique_ptr<Step> make_picked_back(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                       const Attrs& attrs) {
  const Desc& y = in[2];
  const Rows rows = rows_along(y, attrs.get<int64_t>("axis", -1));
  PlaceOf place = place_for(in[1].dtype, attrs);
  if (rows.inner != 1 || y.size() == 0 || place == nullptr || in[0].dtype != y.dtype ||
      out[0].dtype != y.dtype || in[0].size() != rows.outer || in[1].size() != rows.outer)
    return nullptr;
  if (y.dtype == DType::f32)
    return std::make_unique<PickedBack<float>>(MG_PICK(picked_back<float>), place, rows);
  if (y.dtype == DType::f64)
    return std::make_unique<PickedBack<double>>(MG_PICK(picked_back<double>), place, rows);
  return nullptr;
}

MG_KERNEL("_log_softmax_pick_grad", make_picked_back);
MG_KERNEL("softmax", make_softmax<forward>);
MG_KERNEL("log_softmax", make_softmax<forward_log>);
MG_KERNEL("_softmax_grad", make_softmax<backward>);
MG_KERNEL("_log_softmax_grad", make_softmax<backward_log>);
MG_KERNEL("SoftmaxActivation", make_activation);
MG_KERNEL("SoftmaxOutput", make_output);
MG_KERNEL("_softmax_output_grad", make_output_grad);

}  // namespace
}  // namespace mg
