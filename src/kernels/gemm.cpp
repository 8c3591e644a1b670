// Matrix products of moderate size; the large ones are those of gemm_large.cpp.
//
// Tiles of C stay in registers while k runs. With few rows (and both operands along k) C is dot
// products.
#include <algorithm>
#include <type_traits>

#include "kernels/sets.h"
#include "parallel.h"
#include "product.h"

namespace mg {
namespace {

// k is taken in pieces, so that a panel's piece stays in the first cache.
constexpr int64_t kDepth = 128;

// With fewer rows than this, bringing a piece of B together does not pay.
constexpr int64_t kWorthGathering = 24;

template <class T>
struct Matrices {
  int64_t a_row, a_step;  // from one row of op(A) to the next, from one column to the next
  int64_t b_row;          // from one row of B as it lies to the next
  int64_t c_row;
  int64_t k;
  bool turned;  // B lies as (n, k)
  T alpha;
};

#define MG_ISA_FILE "kernels/gemm.inl"
#include "kernels/each_set.h"

template <class T>
using Block = void (*)(const Matrices<T>&, const T* a, const T* b, T* c, const T* bias,
                       int64_t rows, int64_t columns);

// With fewer rows than this, turning B costs more than it brings.
constexpr int64_t kWorthTurning = 12;
// Rows that a part takes at least, if there are as many: each part brings B together for itself.
constexpr int64_t kRowsOfAPart = 96;

template <class T>
class Gemm final : public Step {
 public:
  explicit Gemm(const Product& p) : p_(p), width_(MG_PICK(panel_width<T>)()) {
    const bool dots = p.turn_b && !p.turn_a && p.m < kWorthTurning;
    block_ = dots ? MG_PICK(product_dots<T>) : MG_PICK(product_block<T>);
    g_.a_row = p.turn_a ? 1 : p.k;
    g_.a_step = p.turn_a ? p.m : 1;
    g_.b_row = p.turn_b ? p.k : p.n;
    g_.c_row = p.n;
    g_.k = p.k;
    g_.turned = p.turn_b;
    g_.alpha = static_cast<T>(p.alpha);
    panels_ = (p.n + width_ - 1) / width_;
    strips_ = std::max<int64_t>(1, std::min(p.m / kRowsOfAPart, 2 * team_size() / panels_));
    rows_ = (p.m + strips_ - 1) / strips_;
  }

  void run(const void* const* in, void* const* out, void*) override {
    const T* a = static_cast<const T*>(in[p_.a]);
    const T* b = static_cast<const T*>(in[p_.b]);
    const T* bias = p_.bias < 0 ? nullptr : static_cast<const T*>(in[p_.bias]);
    T* c = static_cast<T*>(out[0]);
    const double cost = static_cast<double>(width_ * p_.k * rows_) / 40.0;
    parallel_for(panels_ * strips_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t j = at / strips_ * width_, i = at % strips_ * rows_;
        block_(g_, a + i * g_.a_row, b + (p_.turn_b ? j * p_.k : j), c + i * p_.n + j,
               bias ? bias + j : nullptr, std::min(rows_, p_.m - i), std::min(width_, p_.n - j));
      }
    });
  }

 private:
  Product p_;
  Matrices<T> g_{};
  int64_t width_, panels_ = 0, strips_ = 0, rows_ = 0;
  Block<T> block_ = nullptr;
};

template <ProductOf product_of>
std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  const std::optional<Product> p = product_of(in, out, attrs);
  if (!p || p->batch != 1 || (p->turn_a && p->turn_b) || p->flops() > kLargeFlops) return nullptr;
  return product_step<Gemm>(in[0].dtype, *p);
}

constexpr int kBeforeOneDnn = 1;

MG_PRODUCTS(make, kBeforeOneDnn);

}  // namespace
}  // namespace mg
