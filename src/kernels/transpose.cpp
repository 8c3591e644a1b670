// transpose: any order of axes, any element type.
//
// Axes of size 1 are dropped and neighbours that stay together merged. What is left either ends in
// the same axis as the input (runs are copied) or turns rows into columns, tile by tile.
#include <cstring>

#include "../isa.h"
#include "../kernel.h"
#include "../parallel.h"

namespace mg {
namespace {

struct Axis {
  int64_t size, from, to;  // strides, in elements
};

// out[a * to + b] = in[b * from + a], in tiles so narrow that rows of both stay in the cache.
#define MG_TURN(name, T)                                                                       \
  MG_CLONES void name(const T* in, T* out, int64_t a_size, int64_t b_size, int64_t from,       \
                      int64_t to) {                                                            \
    for (int64_t b0 = 0; b0 < b_size; b0 += 16) {                                              \
      const int64_t b1 = b0 + 16 < b_size ? b0 + 16 : b_size;                                  \
      for (int64_t a = 0; a < a_size; ++a) {                                                   \
        for (int64_t b = b0; b < b1; ++b) out[a * to + b] = in[b * from + a];                  \
      }                                                                                        \
    }                                                                                          \
  }
MG_TURN(turn1, uint8_t)
MG_TURN(turn2, uint16_t)
MG_TURN(turn4, uint32_t)
MG_TURN(turn8, uint64_t)

class Transpose final : public Step {
 public:
  Transpose(const Desc& x, const std::vector<int64_t>& order)
      : bytes_(size_of(x.dtype)), total_(x.size()) {
    std::vector<int64_t> strides(x.shape.size());
    int64_t n = 1;
    for (std::size_t i = x.shape.size(); i-- > 0;) strides[i] = n, n *= x.shape[i];
    for (int64_t axis : order) {  // outermost first
      const int64_t size = x.shape[axis], from = strides[axis];
      if (size == 1) continue;
      if (!axes_.empty() && axes_.back().from == size * from) {
        axes_.back().size *= size;
        axes_.back().from = from;
      } else {
        axes_.push_back({size, from, 0});
      }
    }
    if (axes_.empty()) axes_.push_back({1, 1, 1});
    n = 1;
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
    const char* from = static_cast<const char*>(in[0]);
    char* to = static_cast<char*>(out[0]);
    // a row is cut in pieces: there may be few rows
    const int64_t piece = runs_ ? 1 : 64, pieces = runs_ ? 1 : (row_.size + piece - 1) / piece;
    int64_t outer = 1;
    for (const Axis& axis : axes_) outer *= axis.size;
    const int64_t items = outer * pieces;
    const double cost = static_cast<double>(total_) / static_cast<double>(items);
    parallel_for(items, cost * (runs_ ? 0.3 : 0.6), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        int64_t rest = item / pieces, source = 0, target = 0;
        for (std::size_t i = axes_.size(); i-- > 0;) {
          const int64_t at = rest % axes_[i].size;
          rest /= axes_[i].size;
          source += at * axes_[i].from;
          target += at * axes_[i].to;
        }
        if (runs_) {
          std::memcpy(to + target * bytes_, from + source * bytes_,
                      static_cast<std::size_t>(inner_.size * bytes_));
          continue;
        }
        const int64_t first = item % pieces * piece;
        const int64_t count = std::min(piece, row_.size - first);
        turn(from + (source + first) * bytes_, to + (target + first * row_.to) * bytes_, count);
      }
    });
  }

 private:
  void turn(const char* from, char* to, int64_t count) const {
    const int64_t b = inner_.size, step = inner_.from, stride = row_.to;
    auto with = [&](auto* function, auto element) {
      using T = decltype(element);
      function(reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to), count, b, step, stride);
    };
    if (bytes_ == 1) with(turn1, uint8_t{});
    if (bytes_ == 2) with(turn2, uint16_t{});
    if (bytes_ == 4) with(turn4, uint32_t{});
    if (bytes_ == 8) with(turn8, uint64_t{});
  }

  int64_t bytes_, total_;
  std::vector<Axis> axes_;  // without the two below
  Axis inner_{}, row_{};    // neighbours in the output; neighbours in the input
  bool runs_ = false;
};

std::unique_ptr<Step> make_transpose(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  const Desc& x = in[0];
  if (x.size() < 1 || x.dtype != out[0].dtype || x.size() != out[0].size()) return nullptr;
  std::vector<int64_t> order = attrs.get<std::vector<int64_t>>("axes", {});
  if (order.empty()) {
    for (int64_t i = x.ndim(); i-- > 0;) order.push_back(i);
  }
  if (static_cast<int>(order.size()) != x.ndim()) return nullptr;
  for (int64_t& axis : order) axis = axis < 0 ? axis + x.ndim() : axis;
  return std::make_unique<Transpose>(x, order);
}

MG_KERNEL("transpose", make_transpose);

}  // namespace
}  // namespace mg
