// Rows and elements by number: Embedding, take, pick, one_hot and what goes back through them.
//
// Numbers come in any element type, are cut to whole ones, and are clipped or wrapped.
#include <algorithm>
#include <cstring>

#include "kernels/places.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

// -- slices ---------------------------------------------------------------------------------------

// out[o, i, :] = table[o, indices[i], :]
class Take final : public Step {
 public:
  Take(PlaceOf place, int64_t outer, int64_t size, int64_t bytes, int64_t count)
      : place_(place), outer_(outer), size_(size), bytes_(bytes), count_(count) {}
  void run(const void* const* in, void* const* out, void*) override {
    const char* table = static_cast<const char*>(in[0]);
    char* to = static_cast<char*>(out[0]);
    parallel_for(outer_ * count_, 5 + 0.1 * static_cast<double>(bytes_),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t k = begin; k < end; ++k) {
                     const int64_t row = k / count_ * size_ + place_(in[1], k % count_, size_);
                     std::memcpy(to + k * bytes_, table + row * bytes_,
                                 static_cast<size_t>(bytes_));
                   }
                 });
  }

 private:
  PlaceOf place_;
  int64_t outer_, size_, bytes_, count_;
};

// Zeros, and grad[o, i, :] added at table[o, indices[i], :], in the order of i.
template <class T>
class TakeGrad final : public Step {
 public:
  TakeGrad(PlaceOf place, int grad, int indices, int64_t outer, int64_t size, int64_t width,
           int64_t count)
      : place_(place), grad_(grad), indices_(indices), outer_(outer), size_(size), width_(width),
        count_(count) {}
  void run(const void* const* in, void* const* out, void*) override {
    const T* grad = static_cast<const T*>(in[grad_]);
    T* table = static_cast<T*>(out[0]);
    parallel_for(outer_ * size_ * width_, 0.05, [&](int64_t begin, int64_t end) {
      std::memset(table + begin, 0, static_cast<size_t>(end - begin) * sizeof(T));
    });
    for (int64_t o = 0; o < outer_; ++o)
      for (int64_t i = 0; i < count_; ++i) {
        T* to = table + (o * size_ + place_(in[indices_], i, size_)) * width_;
        const T* from = grad + (o * count_ + i) * width_;
        for (int64_t k = 0; k < width_; ++k) to[k] += from[k];
      }
  }

 private:
  PlaceOf place_;
  int grad_, indices_;
  int64_t outer_, size_, width_, count_;
};

struct Slices {
  int64_t outer = 1, size = 1, width = 1;
};
Slices slices_of(const Desc& table, int64_t axis) {
  Slices s;
  if (axis < 0) axis += table.ndim();
  for (int i = 0; i < table.ndim(); ++i)
    (i < axis ? s.outer : i == axis ? s.size : s.width) *= table.shape[static_cast<size_t>(i)];
  return s;
}

std::unique_ptr<Step> take(const Desc& table, const Desc& indices, PlaceOf place, int64_t axis) {
  const Slices s = slices_of(table, axis);
  if (place == nullptr || table.size() == 0) return nullptr;
  return std::make_unique<Take>(place, s.outer, s.size, s.width * size_of(table.dtype),
                                indices.size());
}

// Embedding reads its table second: the step swaps them.
class Swapped final : public Step {
 public:
  explicit Swapped(std::unique_ptr<Step> step) : step_(std::move(step)) {}
  void run(const void* const* in, void* const* out, void* scratch) override {
    const void* swapped[2] = {in[1], in[0]};
    step_->run(swapped, out, scratch);
  }

 private:
  std::unique_ptr<Step> step_;
};

std::unique_ptr<Step> make_take(const std::vector<Desc>& in, const std::vector<Desc>&,
                                const Attrs& attrs) {
  return take(in[0], in[1], place_for(in[1].dtype, attrs), attrs.get<int64_t>("axis", 0));
}

std::unique_ptr<Step> make_embedding(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  if (in[1].ndim() != 2 || out[0].dtype != in[1].dtype ||
      in[1].shape[0] != attrs.get<int64_t>("input_dim", -1) ||
      in[1].shape[1] != attrs.get<int64_t>("output_dim", -1))
    return nullptr;
  auto step = take(in[1], in[0], place_for<false>(in[0].dtype), 0);
  return step ? std::make_unique<Swapped>(std::move(step)) : nullptr;
}

std::unique_ptr<Step> take_grad(const Desc& table, int grad, const Desc& indices, int place_in,
                                PlaceOf place, int64_t axis) {
  const Slices s = slices_of(table, axis);
  if (place == nullptr || table.size() == 0) return nullptr;
  if (table.dtype == DType::f32)
    return std::make_unique<TakeGrad<float>>(place, grad, place_in, s.outer, s.size, s.width,
                                             indices.size());
  if (table.dtype == DType::f64)
    return std::make_unique<TakeGrad<double>>(place, grad, place_in, s.outer, s.size, s.width,
                                              indices.size());
  return nullptr;
}

std::unique_ptr<Step> make_take_grad(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  if (in[0].dtype != out[0].dtype) return nullptr;
  return take_grad(out[0], 0, in[2], 2, place_for(in[2].dtype, attrs),
                   attrs.get<int64_t>("axis", 0));
}

std::unique_ptr<Step> make_embedding_grad(const std::vector<Desc>& in,
                                          const std::vector<Desc>& out, const Attrs&) {
  if (in[0].dtype != out[0].dtype) return nullptr;
  return take_grad(out[0], 0, in[1], 1, place_for<false>(in[1].dtype), 0);
}

// -- single elements ------------------------------------------------------------------------------

template <class T>
class Pick final : public Step {
 public:
  Pick(PlaceOf place, const Slices& s) : place_(place), s_(s) {}
  void run(const void* const* in, void* const* out, void*) override {
    const T* data = static_cast<const T*>(in[0]);
    T* to = static_cast<T*>(out[0]);
    for (int64_t k = 0; k < s_.outer * s_.width; ++k) {
      const int64_t row = k / s_.width * s_.size + place_(in[1], k, s_.size);
      to[k] = data[row * s_.width + k % s_.width];
    }
  }

 private:
  PlaceOf place_;
  Slices s_;
};

template <class T>
class PickGrad final : public Step {
 public:
  PickGrad(PlaceOf place, const Slices& s) : place_(place), s_(s) {}
  void run(const void* const* in, void* const* out, void*) override {
    const T* grad = static_cast<const T*>(in[0]);
    T* to = static_cast<T*>(out[0]);
    const int64_t row = s_.size * s_.width;
    parallel_for(s_.outer, 0.2 * static_cast<double>(row), [&](int64_t begin, int64_t end) {
      std::memset(to + begin * row, 0, static_cast<size_t>((end - begin) * row) * sizeof(T));
      for (int64_t k = begin * s_.width; k < end * s_.width; ++k) {
        const int64_t at = k / s_.width * s_.size + place_(in[2], k, s_.size);
        to[at * s_.width + k % s_.width] = grad[k];
      }
    });
  }

 private:
  PlaceOf place_;
  Slices s_;
};

template <template <class> class Kind>
std::unique_ptr<Step> pick(const Desc& data, const Desc& index, const Attrs& attrs) {
  PlaceOf place = place_for(index.dtype, attrs);
  if (!attrs.has("axis") || data.size() == 0 || place == nullptr) return nullptr;
  const Slices s = slices_of(data, attrs.get<int64_t>("axis", -1));
  if (index.size() != s.outer * s.width) return nullptr;
  if (data.dtype == DType::f32) return std::make_unique<Kind<float>>(place, s);
  if (data.dtype == DType::f64) return std::make_unique<Kind<double>>(place, s);
  return nullptr;
}

std::unique_ptr<Step> make_pick(const std::vector<Desc>& in, const std::vector<Desc>&,
                                const Attrs& attrs) {
  return pick<Pick>(in[0], in[1], attrs);
}
std::unique_ptr<Step> make_pick_grad(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  if (in[0].dtype != out[0].dtype) return nullptr;
  return pick<PickGrad>(out[0], in[2], attrs);
}

template <class T>
class OneHot final : public Step {
 public:
  OneHot(PlaceOf place, int64_t count, int64_t depth, const Attrs& attrs)
      : place_(place), count_(count), depth_(depth),
        on_(static_cast<T>(attrs.get<double>("on_value", 1))),
        off_(static_cast<T>(attrs.get<double>("off_value", 0))) {}
  void run(const void* const* in, void* const* out, void*) override {
    T* to = static_cast<T*>(out[0]);
    parallel_for(count_, 0.1 * static_cast<double>(depth_), [&](int64_t begin, int64_t end) {
      std::fill(to + begin * depth_, to + end * depth_, off_);
      for (int64_t i = begin; i < end; ++i) {
        // one place more on either side shows what lies outside
        const int64_t at = place_(in[0], i, depth_ + 1);
        if (at < depth_ && inside(in[0], i)) to[i * depth_ + at] = on_;
      }
    });
  }
  bool (*inside)(const void*, int64_t) = nullptr;

 private:
  PlaceOf place_;
  int64_t count_, depth_;
  T on_, off_;
};

template <class I>
bool not_negative(const void* indices, int64_t i) {
  return static_cast<const I*>(indices)[i] > I(-1);
}

std::unique_ptr<Step> make_one_hot(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                   const Attrs& attrs) {
  if (out[0].dtype != DType::f32) return nullptr;
  auto step = std::make_unique<OneHot<float>>(place_for<false>(in[0].dtype), in[0].size(),
                                              attrs.get<int64_t>("depth", 0), attrs);
  switch (in[0].dtype) {
    case DType::f32: step->inside = not_negative<float>; break;
    case DType::i32: step->inside = not_negative<int32_t>; break;
    case DType::i64: step->inside = not_negative<int64_t>; break;
    default: return nullptr;
  }
  return step;
}

MG_KERNEL("take", make_take);
MG_KERNEL("_take_grad", make_take_grad);
MG_KERNEL("Embedding", make_embedding);
MG_KERNEL("_embedding_grad", make_embedding_grad);
MG_KERNEL("pick", make_pick);
MG_KERNEL("_pick_grad", make_pick_grad);
MG_KERNEL("one_hot", make_one_hot);

}  // namespace
}  // namespace mg
