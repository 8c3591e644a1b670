// Large matrix products: panels of B are brought together in the second cache and meet all rows.
//
// Each part of C brings its own piece of B together, so that nobody waits for another. Smaller
// products are those of gemm.cpp, those of few rows and smaller stacks oneDNN's.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "kernels/sets.h"
#include "parallel.h"
#include "product.h"

namespace mg {
namespace {

// What is brought together at once: kDepth x kColumns of B (half a second cache of 1 MB), and of A,
// where it lies turned, kDepth x kStripRows.
constexpr int64_t kDepth = 256, kColumns = 512, kStripRows = 48;

template <class T>
struct Matrices {
  int64_t a_row, b_row, c_row;  // from one row to the next, as the matrices lie
  int64_t k;
  bool turn_a, turn_b;  // A lies as (k, m), B as (n, k)
  T alpha;
};

#define MG_ISA_FILE "kernels/gemm_large.inl"
#include "kernels/each_set.h"

template <class T>
using Block = void (*)(const Matrices<T>&, const T* a, const T* b, T* c, const T* bias,
                       int64_t rows, int64_t columns, T* memory);

// A thread's room for what is brought together.
void* own_memory() {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<void, Free> mine;
  if (!mine) {
    mine.reset(std::aligned_alloc(64, kDepth * (kColumns + kStripRows) * sizeof(double)));
    if (!mine) throw std::bad_alloc();
  }
  return mine.get();
}

// Rows that a part takes at least, if there are as many: each part brings B together for itself.
constexpr int64_t kRowsOfAPart = 240;

template <class T>
class LargeGemm final : public Step {
 public:
  explicit LargeGemm(const Product& p) : p_(p), block_(MG_PICK(block_of<T>)) {
    const int64_t width = MG_PICK(panel_width<T>)(), panels = (p.n + width - 1) / width;
    groups_ = (p.n + kColumns - 1) / kColumns;
    columns_ = (panels + groups_ - 1) / groups_ * width;
    groups_ = (p.n + columns_ - 1) / columns_;
    const int64_t threads = team_size(), wanted = threads > 1 ? kPartsAThread * threads : 1;
    strips_ = std::clamp<int64_t>((wanted + groups_ * p.batch - 1) / (groups_ * p.batch), 1,
                                  std::max<int64_t>(1, p.m / kRowsOfAPart));
    rows_ = ((p.m + strips_ - 1) / strips_ + 5) / 6 * 6;
    strips_ = (p.m + rows_ - 1) / rows_;
    g_.a_row = p.turn_a ? p.m : p.k;
    g_.b_row = p.turn_b ? p.k : p.n;
    g_.c_row = p.n;
    g_.k = p.k;
    g_.turn_a = p.turn_a;
    g_.turn_b = p.turn_b;
    g_.alpha = static_cast<T>(p.alpha);
  }

  void run(const void* const* in, void* const* out, void*) override {
    const T* a = static_cast<const T*>(in[p_.a]);
    const T* b = static_cast<const T*>(in[p_.b]);
    const T* bias = p_.bias < 0 ? nullptr : static_cast<const T*>(in[p_.bias]);
    T* c = static_cast<T*>(out[0]);
    const double cost = static_cast<double>(rows_ * columns_ * p_.k) / 50.0;
    parallel_for(p_.batch * groups_ * strips_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t i = at % strips_ * rows_, j = at / strips_ % groups_ * columns_;
        const int64_t one = at / strips_ / groups_;
        block_(g_, a + one * p_.m * p_.k + (p_.turn_a ? i : i * p_.k),
               b + one * p_.k * p_.n + (p_.turn_b ? j * p_.k : j),
               c + (one * p_.m + i) * p_.n + j, bias ? bias + j : nullptr,
               std::min(rows_, p_.m - i), std::min(columns_, p_.n - j),
               static_cast<T*>(own_memory()));
      }
    });
  }

 private:
  Product p_;
  Matrices<T> g_{};
  Block<T> block_;
  int64_t groups_, columns_, strips_, rows_;
};

// With fewer rows bringing B together does not pay.
constexpr int64_t kLeastRows = 24;

template <ProductOf product_of>
std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  const std::optional<Product> p = product_of(in, out, attrs);
  if (!p || p->m < kLeastRows || p->flops() <= kLargeFlops) return nullptr;
  return product_step<LargeGemm>(in[0].dtype, *p);
}

constexpr int kBeforeOneDnn = 2;

MG_PRODUCTS(make, kBeforeOneDnn);
MG_STACKED_PRODUCTS(make, kBeforeOneDnn);

}  // namespace
}  // namespace mg
