// Multi-head attention on interleaved projections, its parts and the whole, and the gradients.
#include <algorithm>

#include "kernels/rows.h"
#include "kernels/sets.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

enum class AttentionCall { scores, weighted, scores_grad, weighted_grad, whole, whole_grad };

// One matrix a head, inside an array: where the first begins, how far to the next, and to a row.
struct Part {
  int64_t start = 0, step = 0, row = 0;
};

struct Attention {
  bool cross = false;  // queries lie in an array of their own
  int64_t heads = 0, queries = 0, keys = 0, depth = 0;  // heads: of all samples
  Part q, k, v, out;
  double scale = 1;
};

struct AttentionPasses {
  void (*run)(AttentionCall call, const Attention& s, const void* const* in, void* const* out,
              void* scratch, int64_t begin, int64_t end);
  int64_t (*pack_size)(const Attention& s);
};

#define MG_ISA_FILE "kernels/attention.inl"
#include "kernels/each_set.h"

class Attending final : public Step {
 public:
  Attending(AttentionPasses passes, AttentionCall call, const Attention& s, int64_t element)
      : p_(passes), call_(call), s_(s),
        slices_(std::min<int64_t>(s.heads, std::max(2, omp_get_max_threads()))) {
    int64_t size = passes.pack_size(s);
    if (call == AttentionCall::whole_grad) size += s.queries * s.keys;
    slice_ = (size * element + 63) / 64 * 64;
  }
  std::size_t scratch() const override { return static_cast<std::size_t>(slices_ * slice_); }

  void run(const void* const* in, void* const* out, void* scratch) override {
    const double products = call_ == AttentionCall::whole_grad ? 4
                            : call_ == AttentionCall::scores || call_ == AttentionCall::weighted
                                ? 1
                                : 2;
    const double cost = products * static_cast<double>(s_.heads * s_.queries * s_.keys) *
                        static_cast<double>(s_.depth) / 40 / static_cast<double>(slices_);
    parallel_for(slices_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        p_.run(call_, s_, in, out, static_cast<char*>(scratch) + k * slice_,
               s_.heads * k / slices_, s_.heads * (k + 1) / slices_);
    });
  }

 private:
  AttentionPasses p_;
  AttentionCall call_;
  Attention s_;
  int64_t slices_, slice_;
};

template <AttentionCall call, bool cross>
std::unique_ptr<Step> make_attention(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  const DType dtype = in[0].dtype;
  for (const auto* list : {&in, &out})
    for (const Desc& one : *list)
      if (one.dtype != dtype || one.size() == 0) return nullptr;
  constexpr bool grad = call == AttentionCall::scores_grad ||
                        call == AttentionCall::weighted_grad || call == AttentionCall::whole_grad;
  constexpr bool scored = call == AttentionCall::scores || call == AttentionCall::scores_grad;
  const Desc& data = in[grad + (cross && scored)];  // what holds the keys and values
  const Desc& weights = call == AttentionCall::scores        ? out[0]
                        : call == AttentionCall::scores_grad ? in[0]
                        : call == AttentionCall::weighted    ? in[1]
                        : call == AttentionCall::whole       ? out[1]
                                                             : in[2];
  const int64_t heads = attrs.get<int64_t>("heads", 0), parts = cross ? 2 : 3;
  if (heads < 1 || data.ndim() != 3 || data.shape[2] % (heads * parts) != 0) return nullptr;
  Attention s;
  s.cross = cross;
  s.heads = data.shape[1] * heads;
  s.keys = data.shape[0];
  s.depth = data.shape[2] / (heads * parts);
  s.queries = weights.size() / (s.heads * s.keys);
  s.scale = 1 / std::sqrt(static_cast<double>(s.depth));
  const int64_t row = s.heads * s.depth;
  s.out = s.q = {0, s.depth, row};
  s.k = {(parts - 2) * s.depth, parts * s.depth, parts * row};
  s.v = {(parts - 1) * s.depth, parts * s.depth, parts * row};
  if (!cross) s.q = {0, parts * s.depth, parts * row};
  if (dtype == DType::f32)
    return std::make_unique<Attending>(MG_PICK(attention_passes<float>)(), call, s, 4);
  if (dtype == DType::f64)
    return std::make_unique<Attending>(MG_PICK(attention_passes<double>)(), call, s, 8);
  return nullptr;
}

MG_KERNEL("_contrib_interleaved_matmul_selfatt_qk", make_attention<AttentionCall::scores, false>);
MG_KERNEL("_contrib_interleaved_matmul_selfatt_valatt",
          make_attention<AttentionCall::weighted, false>);
MG_KERNEL("_contrib_interleaved_matmul_encdec_qk", make_attention<AttentionCall::scores, true>);
MG_KERNEL("_contrib_interleaved_matmul_encdec_valatt",
          make_attention<AttentionCall::weighted, true>);
MG_KERNEL("_selfatt_qk_grad", make_attention<AttentionCall::scores_grad, false>);
MG_KERNEL("_selfatt_valatt_grad", make_attention<AttentionCall::weighted_grad, false>);
MG_KERNEL("_encdec_qk_grad", make_attention<AttentionCall::scores_grad, true>);
MG_KERNEL("_encdec_valatt_grad", make_attention<AttentionCall::weighted_grad, true>);
MG_KERNEL("_selfatt", make_attention<AttentionCall::whole, false>);
MG_KERNEL("_selfatt_grad", make_attention<AttentionCall::whole_grad, false>);

}  // namespace
}  // namespace mg
