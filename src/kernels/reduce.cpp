// sum, mean, max, min, norm, and sums over stretched axes (_sum_like).
#include <algorithm>
#include <utility>

#include "kernels/sets.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

enum class Fold { sum, squares, sizes, max, min };

// (front, outer, count, inner): `front` and `count` are folded; front > 1 only with inner == 1.
struct Folding {
  int64_t front = 1, outer = 1, count = 1, inner = 1;
  double divide = 1;
  bool root = false;
};

template <class T>
MG_INLINE T finished(const Folding& f, double total) {
  return static_cast<T>(f.root ? std::sqrt(total) : total / f.divide);
}

using FoldPass = void (*)(const Folding& f, const void* in, void* out, int64_t begin, int64_t end,
                          int64_t from, int64_t to);

#define MG_ISA_FILE "kernels/reduce.inl"
#include "kernels/each_set.h"

// Neighbouring axes of one kind joined; false where they alternate too often.
bool join_axes(const std::vector<int64_t>& shape, const std::vector<bool>& folded, Folding* f) {
  std::vector<std::pair<bool, int64_t>> runs;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!runs.empty() && runs.back().first == folded[i]) runs.back().second *= shape[i];
    else runs.emplace_back(folded[i], shape[i]);
  }
  const size_t n = runs.size();
  auto size = [&](size_t i) { return runs[i].second; };
  if (n == 0) return true;
  if (n == 1) (runs[0].first ? f->count : f->outer) = size(0);
  else if (n == 2 && runs[0].first) f->count = size(0), f->inner = size(1);
  else if (n == 2) f->outer = size(0), f->count = size(1);
  else if (n == 3 && runs[0].first) f->front = size(0), f->outer = size(1), f->count = size(2);
  else if (n == 3) f->outer = size(0), f->count = size(1), f->inner = size(2);
  else return false;
  return true;
}

class Reduce final : public Step {
 public:
  Reduce(FoldPass pass, const Folding& folding) : pass_(pass), f_(folding) {}

  void run(const void* const* in, void* const* out, void*) override {
    const double work = 0.12 * static_cast<double>(f_.front * f_.count);
    if (f_.inner > 1 && f_.outer == 1) {  // a few rows of results: columns are shared out
      parallel_for(
          f_.inner, work,
          [&](int64_t from, int64_t to) { pass_(f_, in[0], out[0], 0, 1, from, to); }, 64);
      return;
    }
    parallel_for(f_.outer, work * static_cast<double>(f_.inner), [&](int64_t begin, int64_t end) {
      pass_(f_, in[0], out[0], begin, end, 0, f_.inner);
    });
  }

 private:
  FoldPass pass_;
  Folding f_;
};

FoldPass pass_for(DType dtype, Fold kind) {
  if (dtype == DType::f32) return MG_PICK(fold_pass<float>)(kind);
  if (dtype == DType::f64) return MG_PICK(fold_pass<double>)(kind);
  return nullptr;
}

std::unique_ptr<Step> make(const Desc& in, const std::vector<bool>& folded, Fold kind, bool mean,
                           bool root) {
  if (in.size() == 0) return nullptr;
  FoldPass pass = pass_for(in.dtype, kind);
  Folding f;
  if (pass == nullptr || !join_axes(in.shape, folded, &f)) return nullptr;
  if (mean) f.divide = static_cast<double>(f.front * f.count);
  f.root = root;
  return std::make_unique<Reduce>(pass, f);
}

// Which axes are folded: attributes axis (a number, several, or None for all) and exclude.
bool folded_axes(const Desc& in, const Attrs& attrs, std::vector<bool>* folded) {
  std::vector<int64_t> axes = attrs.get<std::vector<int64_t>>("axis", {});
  const int64_t none = INT64_MIN, one = attrs.get<int64_t>("axis", none);
  if (one != none) axes = {one};
  const bool exclude = attrs.get<bool>("exclude", false);
  // no axis named means all of them, whatever `exclude` says
  folded->assign(in.shape.size(), axes.empty() || exclude);
  for (int64_t axis : axes) {
    if (axis < 0) axis += in.ndim();
    if (axis < 0 || axis >= in.ndim()) return false;
    (*folded)[static_cast<size_t>(axis)] = !exclude;
  }
  return true;
}

template <Fold kind, bool mean>
std::unique_ptr<Step> make_reduce(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                  const Attrs& attrs) {
  std::vector<bool> folded;
  if (!folded_axes(in[0], attrs, &folded)) return nullptr;
  if (out[0].dtype != in[0].dtype) return nullptr;
  return make(in[0], folded, kind, mean, false);
}

std::unique_ptr<Step> make_norm(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                const Attrs& attrs) {
  std::vector<bool> folded;
  if (out[0].dtype != in[0].dtype || !folded_axes(in[0], attrs, &folded)) return nullptr;
  const int64_t ord = attrs.get<int64_t>("ord", 2);
  if (ord != 1 && ord != 2) return nullptr;
  const bool squares = ord == 2;
  return make(in[0], folded, squares ? Fold::squares : Fold::sizes, false, squares);
}

std::unique_ptr<Step> make_sum_like(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                    const Attrs&) {
  const auto& from = in[0].shape;
  const auto& to = out[0].shape;
  if (to.size() > from.size()) return nullptr;
  const size_t lead = from.size() - to.size();
  std::vector<bool> folded(from.size(), true);
  for (size_t i = 0; i < to.size(); ++i) folded[i + lead] = to[i] == 1;
  return make(in[0], folded, Fold::sum, false, false);
}

MG_KERNEL("sum", make_reduce<Fold::sum, false>);
MG_KERNEL("mean", make_reduce<Fold::sum, true>);
MG_KERNEL("max", make_reduce<Fold::max, false>);
MG_KERNEL("min", make_reduce<Fold::min, false>);
MG_KERNEL("norm", make_norm);
MG_KERNEL("_sum_like", make_sum_like);

}  // namespace
}  // namespace mg
