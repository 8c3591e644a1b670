// Elements moved, not changed: SwapAxis, Concat, slices and splits, of any type.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

// An order of axes: the kernel of transpose does it.
std::unique_ptr<Step> make_swap(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                const Attrs& attrs) {
  std::vector<int64_t> axes(in[0].shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  int64_t a = attrs.get<int64_t>("dim1", 0), b = attrs.get<int64_t>("dim2", 0);
  const auto n = static_cast<int64_t>(axes.size());
  a = a < 0 ? a + n : a;
  b = b < 0 ? b + n : b;
  if (a < 0 || b < 0 || a >= n || b >= n) return nullptr;
  std::swap(axes[static_cast<size_t>(a)], axes[static_cast<size_t>(b)]);
  Attrs order;
  order.set("axes", axes);
  return make_step("transpose", in, out, order);
}

// -- joining and cutting --------------------------------------------------------------------------

// Stretches of `bytes` from one array to another, `count` of them, each side with its distance.
struct Stretch {
  int from = 0, to = 0;  // which input, which output
  int64_t start = 0, target = 0, bytes = 0, step = 0, target_step = 0;
};

class Stretches final : public Step {
 public:
  Stretches(std::vector<Stretch> parts, int64_t count) : parts_(std::move(parts)), count_(count) {}
  void run(const void* const* in, void* const* out, void*) override {
    for (const Stretch& s : parts_) {
      const char* from = static_cast<const char*>(in[s.from]) + s.start;
      char* to = static_cast<char*>(out[s.to]) + s.target;
      parallel_for(count_, 3 + 0.1 * static_cast<double>(s.bytes), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          std::memcpy(to + i * s.target_step, from + i * s.step, static_cast<size_t>(s.bytes));
      });
    }
  }

 private:
  std::vector<Stretch> parts_;
  int64_t count_;
};

// How many rows lie before an axis, and how many bytes one place on it takes.
bool around(const Desc& data, int64_t axis, int64_t* rows, int64_t* bytes) {
  if (axis < 0) axis += data.ndim();
  if (axis < 0 || axis >= data.ndim()) return false;
  *rows = 1;
  *bytes = size_of(data.dtype);
  for (int i = 0; i < data.ndim(); ++i) {
    if (i < axis) *rows *= data.shape[static_cast<size_t>(i)];
    if (i > axis) *bytes *= data.shape[static_cast<size_t>(i)];
  }
  return true;
}

int64_t size_at(const Desc& data, int64_t axis) {
  return data.shape[static_cast<size_t>(axis < 0 ? axis + data.ndim() : axis)];
}

std::unique_ptr<Step> make_concat(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                  const Attrs& attrs) {
  const int64_t axis = attrs.get<int64_t>("dim", 1);
  int64_t rows = 0, bytes = 0, target = 0;
  if (out[0].size() == 0 || !around(out[0], axis, &rows, &bytes)) return nullptr;
  const int64_t whole = size_at(out[0], axis) * bytes;
  std::vector<Stretch> parts;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].dtype != out[0].dtype) return nullptr;
    const int64_t length = size_at(in[i], axis) * bytes;
    parts.push_back({static_cast<int>(i), 0, 0, target, length, length, whole});
    target += length;
  }
  return std::make_unique<Stretches>(std::move(parts), rows);
}

// Pieces of input 0 along an axis, one an output, from `start` on.
std::unique_ptr<Step> cut(const Desc& in, const std::vector<Desc>& out, int64_t axis, bool squeezed,
                          int64_t start) {
  int64_t rows = 0, bytes = 0;
  if (in.size() == 0 || !around(in, axis, &rows, &bytes)) return nullptr;
  const int64_t whole = size_at(in, axis) * bytes;
  std::vector<Stretch> parts;
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t length = (squeezed ? 1 : size_at(out[i], axis)) * bytes;
    parts.push_back({0, static_cast<int>(i), start * bytes, 0, length, whole, length});
    start += length / bytes;
  }
  return start * bytes <= whole ? std::make_unique<Stretches>(std::move(parts), rows) : nullptr;
}

std::unique_ptr<Step> make_slice_axis(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                      const Attrs& attrs) {
  const int64_t axis = attrs.get<int64_t>("axis", 0);
  if (axis >= in[0].ndim() || axis < -in[0].ndim() || out[0].size() == 0) return nullptr;
  int64_t begin = attrs.get<int64_t>("begin", 0);
  if (begin < 0) begin += size_at(in[0], axis);
  return begin < 0 ? nullptr : cut(in[0], out, axis, false, begin);
}

// The gradient of slice_axis: zeros, but for the piece that was cut out.
class Placed final : public Step {
 public:
  Placed(int64_t rows, int64_t whole, int64_t start, int64_t length)
      : rows_(rows), whole_(whole), start_(start), length_(length) {}
  void run(const void* const* in, void* const* out, void*) override {
    const char* from = static_cast<const char*>(in[0]);
    char* to = static_cast<char*>(out[0]);
    parallel_for(rows_, 3 + 0.05 * static_cast<double>(whole_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        char* row = to + i * whole_;
        std::memset(row, 0, static_cast<size_t>(start_));
        std::memcpy(row + start_, from + i * length_, static_cast<size_t>(length_));
        std::memset(row + start_ + length_, 0, static_cast<size_t>(whole_ - start_ - length_));
      }
    });
  }

 private:
  int64_t rows_, whole_, start_, length_;  // all but rows_ in bytes
};

std::unique_ptr<Step> make_slice_axis_grad(const std::vector<Desc>& in,
                                           const std::vector<Desc>& out, const Attrs& attrs) {
  const int64_t axis = attrs.get<int64_t>("axis", 0);
  int64_t rows = 0, bytes = 0;
  if (in[0].dtype != out[0].dtype || in[0].ndim() != out[0].ndim() || in[0].size() == 0 ||
      !around(out[0], axis, &rows, &bytes)) {
    return nullptr;
  }
  int64_t begin = attrs.get<int64_t>("begin", 0);
  if (begin < 0) begin += size_at(out[0], axis);
  if (begin < 0 || begin + size_at(in[0], axis) > size_at(out[0], axis)) return nullptr;
  return std::make_unique<Placed>(rows, size_at(out[0], axis) * bytes, begin * bytes,
                                  size_at(in[0], axis) * bytes);
}

std::unique_ptr<Step> make_split(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                 const Attrs& attrs) {
  for (const Desc& one : out)
    if (one.size() == 0) return nullptr;
  return cut(in[0], out, attrs.get<int64_t>("axis", 1), attrs.get<bool>("squeeze_axis", false), 0);
}

std::unique_ptr<Step> make_split_like(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                      const Attrs& attrs) {
  for (const Desc& one : out)
    if (one.size() == 0) return nullptr;
  return cut(in[0], out, attrs.get<int64_t>("dim", 0), false, 0);
}

MG_KERNEL("SwapAxis", make_swap);
MG_KERNEL("Concat", make_concat);
MG_KERNEL("_rnn_param_concat", make_concat);
MG_KERNEL("_split_like", make_split_like);
MG_KERNEL("slice_axis", make_slice_axis);
MG_KERNEL("_slice_axis_grad", make_slice_axis_grad);
MG_KERNEL("SliceChannel", make_split);

}  // namespace
}  // namespace mg
