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

struct Run {
  bool folded;
  int64_t size;
};

// Neighbouring axes of one kind joined.
std::vector<Run> runs_of(const std::vector<int64_t>& shape, const std::vector<bool>& folded) {
  std::vector<Run> runs;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!runs.empty() && runs.back().folded == folded[i]) runs.back().size *= shape[i];
    else runs.push_back({folded[i], shape[i]});
  }
  return runs;
}

// What one pass can fold; false where there are too many runs.
bool one_pass(const std::vector<Run>& runs, Folding* f) {
  const size_t n = runs.size();
  auto size = [&](size_t i) { return runs[i].size; };
  if (n == 0) return true;
  if (n == 1) (runs[0].folded ? f->count : f->outer) = size(0);
  else if (n == 2 && runs[0].folded) f->count = size(0), f->inner = size(1);
  else if (n == 2) f->outer = size(0), f->count = size(1);
  else if (n == 3 && runs[0].folded) f->front = size(0), f->outer = size(1), f->count = size(2);
  else if (n == 3) f->outer = size(0), f->count = size(1), f->inner = size(2);
  else return false;
  return true;
}

struct Stage {
  FoldPass pass;
  Folding f;
  int64_t results() const { return f.outer * f.inner; }
};

class Reduce final : public Step {
 public:
  // Each stage folds what the one before it left.
  Reduce(std::vector<Stage> stages, int64_t element) : stages_(std::move(stages)) {
    for (const Stage& one : stages_) {
      places_.push_back(scratch_);
      if (&one != &stages_.back()) scratch_ += (one.results() * element + 63) / 64 * 64;
    }
  }
  std::size_t scratch() const override { return static_cast<std::size_t>(scratch_); }

  void run(const void* const* in, void* const* out, void* scratch) override {
    const void* from = in[0];
    for (size_t i = 0; i < stages_.size(); ++i) {
      void* to = i + 1 == stages_.size() ? out[0] : static_cast<char*>(scratch) + places_[i];
      fold(stages_[i], from, to);
      from = to;
    }
  }

 private:
  static void fold(const Stage& stage, const void* from, void* to) {
    const Folding& f = stage.f;
    const double work = 0.12 * static_cast<double>(f.front * f.count);
    if (f.inner > 1 && f.outer == 1) {  // a few rows of results: columns are shared out
      parallel_for(
          f.inner, work,
          [&](int64_t begin, int64_t end) { stage.pass(f, from, to, 0, 1, begin, end); }, 64);
      return;
    }
    parallel_for(f.outer, work * static_cast<double>(f.inner), [&](int64_t begin, int64_t end) {
      stage.pass(f, from, to, begin, end, 0, f.inner);
    });
  }

  std::vector<Stage> stages_;
  std::vector<int64_t> places_;
  int64_t scratch_ = 0;
};

FoldPass pass_for(DType dtype, Fold kind) {
  if (dtype == DType::f32) return MG_PICK(fold_pass<float>)(kind);
  if (dtype == DType::f64) return MG_PICK(fold_pass<double>)(kind);
  return nullptr;
}

std::unique_ptr<Step> make(const Desc& in, const std::vector<bool>& folded, Fold kind, bool mean,
                           bool root) {
  if (in.size() == 0 || pass_for(in.dtype, kind) == nullptr) return nullptr;
  std::vector<Run> runs = runs_of(in.shape, folded);
  double count = 1;
  for (const Run& one : runs)
    if (one.folded) count *= static_cast<double>(one.size);
  std::vector<Stage> stages;
  const auto add = [&](const Folding& f) {
    stages.push_back({pass_for(in.dtype, kind), f});
    if (kind == Fold::squares || kind == Fold::sizes) kind = Fold::sum;  // has been done
  };
  Folding last;
  while (!one_pass(runs, &last)) {  // the first run that can be folded is, beside all after it
    const size_t at = runs[0].folded ? 0 : 1;
    Folding f;
    f.outer = at == 1 ? runs[0].size : 1;
    f.count = runs[at].size;
    for (size_t i = at + 1; i < runs.size(); ++i) f.inner *= runs[i].size;
    add(f);
    runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(at));
    if (at == 1) {  // its neighbours, both kept, are one
      runs[0].size *= runs[1].size;
      runs.erase(runs.begin() + 1);
    }
  }
  if (mean) last.divide = count;
  last.root = root;
  add(last);
  return std::make_unique<Reduce>(std::move(stages), size_of(in.dtype));
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
