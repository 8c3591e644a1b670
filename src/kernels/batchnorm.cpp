// BatchNorm and its gradient, channels on any axis, in training and with given statistics.
#include <algorithm>

#include "kernels/sets.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

struct Layout {
  int64_t outer = 1, channels = 1, inner = 1;
  int64_t rows() const { return inner == 1 ? outer : outer * channels; }
  double row_length() const { return static_cast<double>(inner == 1 ? channels : inner); }
};

struct NormalPasses {
  void (*statistics)(const Layout&, const void* x, void* mean, void* var, double* work,
                     int64_t begin, int64_t end);
  void (*apply)(const Layout&, const void* x, const void* mean, const void* scale,
                const void* shift, void* y, int64_t begin, int64_t end);
  void (*apply_relu)(const Layout&, const void* x, const void* mean, const void* scale,
                     const void* shift, void* y, int64_t begin, int64_t end);
  void (*grad_sums)(const Layout&, const void* dy, const void* x, const void* mean, double* work,
                    int64_t begin, int64_t end);
  void (*grad_apply)(const Layout&, const void* dy, const void* x, const void* mean,
                     const void* factors, void* dx, int64_t begin, int64_t end);
};

#define MG_ISA_FILE "kernels/batchnorm.inl"
#include "kernels/each_set.h"

Layout layout_of(const Desc& data, int64_t axis) {
  Layout l;
  if (axis < 0) axis += data.ndim();
  for (int i = 0; i < data.ndim(); ++i)
    (i < axis ? l.outer : i == axis ? l.channels : l.inner) *= data.shape[static_cast<size_t>(i)];
  return l;
}

// Channels are shared out in blocks of a cache line.
template <class F>
void over_channels(const Layout& l, F&& f) {
  parallel_for(l.channels, 0.25 * static_cast<double>(l.outer * l.inner), f, 16);
}
template <class F>
void over_rows(const Layout& l, F&& f) {
  parallel_for(l.rows(), 0.2 * l.row_length(), f);
}

// relu: what follows is max(y, 0).
template <class T, bool relu>
class Forward final : public Step {
 public:
  Forward(NormalPasses passes, const Layout& l, const Attrs& attrs)
      : p_(passes), l_(l), eps_(attrs.get<double>("eps", 1e-3)),
        momentum_(attrs.get<double>("momentum", 0.9)),
        fixed_(attrs.get<bool>("fix_gamma", true)),
        fresh_(attrs.get<bool>("training", false) && !attrs.get<bool>("use_global_stats", false)) {}

  size_t scratch() const override {
    return static_cast<size_t>(l_.channels) * (2 * sizeof(double) + 2 * sizeof(T));
  }
  bool inplace(int input, int output) const override { return input == 0 && output == 0; }

  void run(const void* const* in, void* const* out, void* scratch) override {
    double* work = static_cast<double*>(scratch);
    T* scale = reinterpret_cast<T*>(work + 2 * l_.channels);
    T* var = scale + l_.channels;
    const T *gamma = static_cast<const T*>(in[1]);
    T *mean = static_cast<T*>(out[1]), *inverse = static_cast<T*>(out[2]);
    T *moving_mean = mutable_in<T>(in[3]), *moving_var = mutable_in<T>(in[4]);
    if (fresh_) {
      over_channels(l_, [&](int64_t begin, int64_t end) {
        p_.statistics(l_, in[0], mean, var, work, begin, end);
      });
      const T keep = static_cast<T>(momentum_), take = static_cast<T>(1 - momentum_);
      for (int64_t c = 0; c < l_.channels; ++c) {
        moving_mean[c] = moving_mean[c] * keep + take * mean[c];
        moving_var[c] = moving_var[c] * keep + take * var[c];
      }
    } else {
      std::copy_n(moving_mean, l_.channels, mean);
      std::copy_n(moving_var, l_.channels, var);
    }
    for (int64_t c = 0; c < l_.channels; ++c) {
      inverse[c] = T(1) / std::sqrt(var[c] + static_cast<T>(eps_));
      scale[c] = fixed_ ? inverse[c] : inverse[c] * gamma[c];
    }
    over_rows(l_, [&](int64_t begin, int64_t end) {
      (relu ? p_.apply_relu : p_.apply)(l_, in[0], mean, scale, in[2], out[0], begin, end);
    });
  }

 private:
  NormalPasses p_;
  Layout l_;
  double eps_, momentum_;
  bool fixed_, fresh_;
};

// The forward again from its statistics. Inputs data, gamma, beta, mean, inverse.
template <class T>
class Again final : public Step {
 public:
  Again(NormalPasses passes, const Layout& l, const Attrs& attrs)
      : apply_(attrs.get<std::string>("act_type", "") == "relu" ? passes.apply_relu : passes.apply),
        l_(l), fixed_(attrs.get<bool>("fix_gamma", true)) {}

  size_t scratch() const override { return static_cast<size_t>(l_.channels) * sizeof(T); }
  bool inplace(int input, int output) const override { return input == 0 && output == 0; }

  void run(const void* const* in, void* const* out, void* scratch) override {
    T* scale = static_cast<T*>(scratch);
    const T *gamma = static_cast<const T*>(in[1]), *inverse = static_cast<const T*>(in[4]);
    for (int64_t c = 0; c < l_.channels; ++c) {
      scale[c] = fixed_ ? inverse[c] : inverse[c] * gamma[c];
    }
    over_rows(l_, [&](int64_t begin, int64_t end) {
      apply_(l_, in[0], in[3], scale, in[2], out[0], begin, end);
    });
  }

 private:
  decltype(NormalPasses::apply) apply_;
  Layout l_;
  bool fixed_;
};

// Inputs dy, data, gamma, beta, mean, inverse; outputs for data, gamma, beta.
template <class T>
class Backward final : public Step {
 public:
  Backward(NormalPasses passes, const Layout& l, const Attrs& attrs)
      : p_(passes), l_(l), fixed_(attrs.get<bool>("fix_gamma", true)),
        constant_(attrs.get<bool>("constant", false)) {}

  size_t scratch() const override {
    return static_cast<size_t>(l_.channels) * (2 * sizeof(double) + 3 * sizeof(T));
  }
  bool inplace(int input, int output) const override { return input <= 1 && output == 0; }

  void run(const void* const* in, void* const* out, void* scratch) override {
    double* work = static_cast<double*>(scratch);
    T* factors = reinterpret_cast<T*>(work + 2 * l_.channels);
    const T *gamma = static_cast<const T*>(in[2]), *inverse = static_cast<const T*>(in[5]);
    T *dgamma = static_cast<T*>(out[1]), *dbeta = static_cast<T*>(out[2]);
    over_channels(l_, [&](int64_t begin, int64_t end) {
      p_.grad_sums(l_, in[0], in[1], in[4], work, begin, end);
    });
    const double count = static_cast<double>(l_.outer * l_.inner);
    for (int64_t c = 0; c < l_.channels; ++c) {
      const double inv = static_cast<double>(inverse[c]), total = work[c];
      const double weighted = work[l_.channels + c] * inv;  // sum dy h, h = (x - mean) inverse
      const double scale = fixed_ ? inv : inv * static_cast<double>(gamma[c]);
      factors[c] = static_cast<T>(scale);
      factors[l_.channels + c] = constant_ ? T(0) : static_cast<T>(-scale * inv * weighted / count);
      factors[2 * l_.channels + c] = constant_ ? T(0) : static_cast<T>(-scale * total / count);
      dgamma[c] = fixed_ ? T(0) : static_cast<T>(weighted);
      dbeta[c] = static_cast<T>(total);
    }
    over_rows(l_, [&](int64_t begin, int64_t end) {
      p_.grad_apply(l_, in[0], in[1], in[4], factors, out[0], begin, end);
    });
  }

 private:
  NormalPasses p_;
  Layout l_;
  bool fixed_, constant_;
};

template <template <class> class Kind>
std::unique_ptr<Step> make(const Desc& data, const std::vector<Desc>& in,
                           const std::vector<Desc>& out, const Attrs& attrs) {
  const int64_t axis = attrs.get<int64_t>("axis", 1);
  if (data.ndim() < 2 || data.size() == 0 || axis >= data.ndim()) return nullptr;
  for (const auto* list : {&in, &out})
    for (const Desc& one : *list)
      if (one.dtype != data.dtype) return nullptr;
  const Layout l = layout_of(data, axis);
  for (const Desc& one : in)
    if (one.ndim() == 1 && one.size() != l.channels) return nullptr;
  if (data.dtype == DType::f32)
    return std::make_unique<Kind<float>>(MG_PICK(normal_passes<float>)(), l, attrs);
  if (data.dtype == DType::f64)
    return std::make_unique<Kind<double>>(MG_PICK(normal_passes<double>)(), l, attrs);
  return nullptr;
}

template <class T>
using Plain = Forward<T, false>;
template <class T>
using Rectified = Forward<T, true>;

template <template <class> class Kind>
std::unique_ptr<Step> make_forward(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                   const Attrs& attrs) {
  return make<Kind>(in[0], in, out, attrs);
}
std::unique_ptr<Step> make_backward(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                    const Attrs& attrs) {
  return make<Backward>(in[1], in, out, attrs);
}

MG_KERNEL("BatchNorm", make_forward<Plain>);
MG_KERNEL("_contrib_BatchNormWithReLU", make_forward<Rectified>);
MG_KERNEL("_batch_norm_apply", make_forward<Again>);
MG_KERNEL("_batch_norm_grad", make_backward);

}  // namespace
}  // namespace mg
