// transpose: any order of axes, any element type. slice: the same with other distances.
//
// Axes of size 1 are dropped and neighbours that stay together merged. What is left either ends in
// the same axis as the input (runs are copied) or turns rows into columns, tile by tile.
#include <algorithm>
#include <cstring>

#include "kernels/sets.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

struct Axis {
  int64_t size, from, to;  // strides, in elements
};
constexpr int kMostAxes = 64;  // of a NumPy array

#define MG_ISA_FILE "kernels/turn.inl"
#include "kernels/each_set.h"

class Transpose final : public Step {
 public:
  // `axes` from the outermost in, as the output has them; `start`: the first element's place.
  Transpose(int64_t bytes, const std::vector<Axis>& axes, int64_t start)
      : bytes_(bytes), start_(start) {
    for (const auto& [size, from, to] : axes) {
      total_ *= size;
      if (size == 1) continue;
      if (!axes_.empty() && axes_.back().from == size * from) {
        axes_.back().size *= size;
        axes_.back().from = from;
      } else {
        axes_.push_back({size, from, 0});
      }
    }
    if (axes_.empty()) axes_.push_back({1, 1, 1});
    int64_t n = 1;
    for (std::size_t i = axes_.size(); i-- > 0;) axes_[i].to = n, n *= axes_[i].size;
    inner_ = axes_.back();
    axes_.pop_back();
    runs_ = inner_.from == 1;
    if (!runs_) {  // the axis whose elements are neighbours in the input
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        if (axes_[i].from == 1) {
          row_ = axes_[i];
          axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(i));
          break;
        }
      }
    }
  }

  void run(const void* const* in, void* const* out, void*) override {
    const char* from = static_cast<const char*>(in[0]) + start_ * bytes_;
    char* to = static_cast<char*>(out[0]);
    // a row is cut in pieces: there may be few rows
    const int64_t piece = runs_ ? 1 : 64, pieces = runs_ ? 1 : (row_.size + piece - 1) / piece;
    int64_t outer = 1;
    for (const Axis& axis : axes_) outer *= axis.size;
    const int64_t items = outer * pieces;
    const double cost = static_cast<double>(total_) / static_cast<double>(items);
    parallel_for(items, cost * (runs_ ? 0.3 : 0.6), [&](int64_t begin, int64_t end) {
      int64_t at[kMostAxes], rest = begin / pieces, source = 0, target = 0;
      for (std::size_t i = axes_.size(); i-- > 0;) {
        at[i] = rest % axes_[i].size;
        rest /= axes_[i].size;
        source += at[i] * axes_[i].from;
        target += at[i] * axes_[i].to;
      }
      int64_t first = begin % pieces * piece;
      for (int64_t item = begin; item < end; ++item) {
        if (runs_) {
          std::memcpy(to + target * bytes_, from + source * bytes_,
                      static_cast<std::size_t>(inner_.size * bytes_));
        } else {
          const int64_t count = std::min(piece, row_.size - first);
          turn(from + (source + first) * bytes_, to + (target + first * row_.to) * bytes_, count);
          first += piece;
          if (first < row_.size) continue;
          first = 0;
        }
        for (std::size_t i = axes_.size(); i-- > 0;) {  // the next row's place
          source += axes_[i].from;
          target += axes_[i].to;
          if (++at[i] < axes_[i].size) break;
          source -= at[i] * axes_[i].from;
          target -= at[i] * axes_[i].to;
          at[i] = 0;
        }
      }
    });
  }

 private:
  void turn(const char* from, char* to, int64_t count) const {
    const auto function = bytes_ == 1   ? MG_PICK(turn<uint8_t>)
                          : bytes_ == 2 ? MG_PICK(turn<uint16_t>)
                          : bytes_ == 4 ? MG_PICK(turn<float>)
                                        : MG_PICK(turn<double>);
    function(from, to, count, inner_.size, inner_.from, row_.to);
  }

  int64_t bytes_, start_, total_ = 1;
  std::vector<Axis> axes_;  // without the two below
  Axis inner_{}, row_{1, 0, 0};  // neighbours in the output; neighbours in the input
  bool runs_ = false;
};

std::vector<int64_t> strides_of(const Desc& x) {
  std::vector<int64_t> strides(x.shape.size());
  int64_t n = 1;
  for (std::size_t i = x.shape.size(); i-- > 0;) strides[i] = n, n *= x.shape[i];
  return strides;
}

std::unique_ptr<Step> make_transpose(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  const Desc& x = in[0];
  if (x.size() < 1 || x.dtype != out[0].dtype || x.size() != out[0].size() ||
      x.ndim() > kMostAxes)
    return nullptr;
  std::vector<int64_t> order = attrs.get<std::vector<int64_t>>("axes", {});
  if (order.empty()) {
    for (int64_t i = x.ndim(); i-- > 0;) order.push_back(i);
  }
  if (static_cast<int>(order.size()) != x.ndim()) return nullptr;
  for (int64_t& axis : order) axis = axis < 0 ? axis + x.ndim() : axis;
  const std::vector<int64_t> strides = strides_of(x);
  std::vector<Axis> axes;
  for (int64_t axis : order) axes.push_back({x.shape[axis], strides[axis], 0});
  return std::make_unique<Transpose>(size_of(x.dtype), axes, 0);
}

// A box cut out: begin (for the first axes) and step as in Python, the sizes as in the output.
std::unique_ptr<Step> make_slice(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                 const Attrs& attrs) {
  const Desc& x = in[0];
  const auto begin = attrs.get<std::vector<int64_t>>("begin", {});
  const auto step = attrs.get<std::vector<int64_t>>("step", {});
  // with None among them they are none of our types, and a step of None is 1
  if (out[0].size() < 1 || x.dtype != out[0].dtype || begin.empty() || begin.size() > x.shape.size() ||
      x.ndim() > kMostAxes || (attrs.has("step") && step.size() != begin.size()))
    return nullptr;
  const std::vector<int64_t> strides = strides_of(x);
  std::vector<Axis> axes;
  int64_t start = 0;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    const int64_t by = i < step.size() ? step[i] : 1, size = x.shape[i];
    int64_t first = i < begin.size() ? begin[i] : 0;
    if (first < 0) first += size;
    first = by > 0 ? std::clamp<int64_t>(first, 0, size) : std::clamp<int64_t>(first, -1, size - 1);
    start += first * strides[i];
    axes.push_back({out[0].shape[i], strides[i] * by, 0});
  }
  return std::make_unique<Transpose>(size_of(x.dtype), axes, start);
}

MG_KERNEL("transpose", make_transpose);
MG_KERNEL("slice", make_slice);

}  // namespace
}  // namespace mg
