// What the operators that are matrix products multiply: for the kernels of src/kernels/gemm.cpp,
// src/kernels/gemm_large.cpp and src/onednn/gemm.cpp.
#pragma once

#include <optional>

#include "kernel.h"

namespace mg {

// C = alpha * op(A) * op(B) + bias, for `batch` pairs of matrices one after the other.
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool turn_a = false, turn_b = false;  // A is stored (k, m), B is stored (n, k)
  int a = 0, b = 1, bias = -1;          // which inputs they are
  double alpha = 1.0;

  bool empty() const { return batch < 1 || m < 1 || n < 1 || k < 1; }
  double flops() const { return 2.0 * batch * m * n * k; }
};

// Beyond this the operands do not stay in the second cache, and copies pay (gemm_large.cpp).
constexpr double kLargeFlops = 3e8;

// The product an operator is for such a call; nothing where it is none, or of several types.
using ProductOf = std::optional<Product> (*)(const std::vector<Desc>& in,
                                             const std::vector<Desc>& out, const Attrs& attrs);

std::optional<Product> fc_product(const std::vector<Desc>&, const std::vector<Desc>&, const Attrs&);
std::optional<Product> fc_grad_data_product(const std::vector<Desc>&, const std::vector<Desc>&,
                                            const Attrs&);
std::optional<Product> fc_grad_weight_product(const std::vector<Desc>&, const std::vector<Desc>&,
                                              const Attrs&);
std::optional<Product> dot_product(const std::vector<Desc>&, const std::vector<Desc>&,
                                   const Attrs&);
std::optional<Product> dot_grad_product(const std::vector<Desc>&, const std::vector<Desc>&,
                                        const Attrs&);
std::optional<Product> batch_dot_product(const std::vector<Desc>&, const std::vector<Desc>&,
                                         const Attrs&);

// A Kind<float> or Kind<double> for a product of such numbers, or null.
template <template <class> class Kind>
std::unique_ptr<Step> product_step(DType dtype, const Product& product) {
  if (dtype == DType::f32) return std::make_unique<Kind<float>>(product);
  if (dtype == DType::f64) return std::make_unique<Kind<double>>(product);
  return nullptr;
}

}  // namespace mg

// Enters make<what is multiplied> for the operators that are one product, and for stacks of them.
#define MG_PRODUCTS(make, priority)                                    \
  MG_KERNEL("FullyConnected", make<fc_product>, priority);             \
  MG_KERNEL("_fc_grad_data", make<fc_grad_data_product>, priority);    \
  MG_KERNEL("_fc_grad_weight", make<fc_grad_weight_product>, priority); \
  MG_KERNEL("dot", make<dot_product>, priority);                       \
  MG_KERNEL("_dot_grad", make<dot_grad_product>, priority)
#define MG_STACKED_PRODUCTS(make, priority)                            \
  MG_KERNEL("batch_dot", make<batch_dot_product>, priority);           \
  MG_KERNEL("_linalg_gemm2", make<batch_dot_product>, priority)
