// Which product each operator is.
#include "product.h"

namespace mg {
namespace {

bool alike(const std::vector<Desc>& in, const std::vector<Desc>& out) {
  for (const Desc& each : in) {
    if (each.dtype != in[0].dtype) return false;
  }
  return out.size() == 1 && out[0].dtype == in[0].dtype;
}

std::optional<Product> sound(const Product& p) {
  if (p.empty()) return std::nullopt;
  return p;
}

int64_t count(const std::vector<int64_t>& shape, std::size_t from, std::size_t to) {
  int64_t n = 1;
  for (std::size_t i = from; i < to; ++i) n *= shape[i];
  return n;
}

// The rows of FullyConnected's matrix: samples, or everything but the last axis.
int64_t rows(const Desc& data, bool flatten) {
  return flatten ? data.shape[0] : count(data.shape, 0, data.shape.size() - 1);
}

}  // namespace

std::optional<Product> fc_product(const std::vector<Desc>& in, const std::vector<Desc>& out,
                              const Attrs& attrs) {
  if (!alike(in, out) || in.size() < 2 || in[0].ndim() < 1) return std::nullopt;
  Product p;
  p.m = rows(in[0], attrs.get<bool>("flatten", true));
  p.n = in[1].shape[0];
  p.k = in[1].shape[1];
  p.turn_b = true;
  if (in.size() > 2) p.bias = 2;
  if (p.m * p.k != in[0].size()) return std::nullopt;
  return sound(p);
}

std::optional<Product> fc_grad_data_product(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                        const Attrs&) {
  if (!alike(in, out)) return std::nullopt;
  Product p;
  p.k = in[1].shape[0];
  p.n = in[1].shape[1];
  if (p.k < 1) return std::nullopt;
  p.m = in[0].size() / p.k;
  if (p.m * p.n != out[0].size()) return std::nullopt;
  return sound(p);
}

std::optional<Product> fc_grad_weight_product(const std::vector<Desc>& in,
                                          const std::vector<Desc>& out, const Attrs& attrs) {
  if (!alike(in, out)) return std::nullopt;
  Product p;
  p.m = out[0].shape[0];
  p.n = out[0].shape[1];
  p.k = rows(in[1], attrs.get<bool>("flatten", true));
  p.turn_a = true;
  if (p.k * p.n != in[1].size() || p.k * p.m != in[0].size()) return std::nullopt;
  return sound(p);
}

std::optional<Product> dot_product(const std::vector<Desc>& in, const std::vector<Desc>& out,
                               const Attrs& attrs) {
  if (!alike(in, out) || in[0].ndim() < 1 || in[1].ndim() < 1) return std::nullopt;
  Product p;
  p.turn_a = attrs.get<bool>("transpose_a", false) && in[0].ndim() > 1;
  p.turn_b = attrs.get<bool>("transpose_b", false) && in[1].ndim() > 1;
  p.k = p.turn_a ? in[0].shape.front() : in[0].shape.back();
  if (p.k < 1 || p.k != (p.turn_b ? in[1].shape.back() : in[1].shape.front())) return std::nullopt;
  p.m = in[0].size() / p.k;
  p.n = in[1].size() / p.k;
  return sound(p);
}

// dot's gradients: with L (m, k) and R (k, n) as dot sees them, dL = g R^T and dR = L^T g. An
// operand that dot turned is stored the other way round, and so is its gradient.
std::optional<Product> dot_grad_product(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                    const Attrs& attrs) {
  if (!alike(in, out) || in[1].ndim() < 1 || in[2].ndim() < 1) return std::nullopt;
  const bool turn_l = attrs.get<bool>("transpose_a", false) && in[1].ndim() > 1;
  const bool turn_r = attrs.get<bool>("transpose_b", false) && in[2].ndim() > 1;
  const int64_t k = turn_l ? in[1].shape.front() : in[1].shape.back();
  if (k < 1) return std::nullopt;
  const int64_t m = in[1].size() / k, n = in[2].size() / k;
  Product p;
  if (attrs.get<std::string>("side", "") == "lhs") {
    if (!turn_l) {  // (m, k) = g (m, n) . R^T
      p.m = m, p.n = k, p.k = n, p.a = 0, p.b = 2, p.turn_b = !turn_r;
    } else {  // (k, m) = R (k, n) . g^T
      p.m = k, p.n = m, p.k = n, p.a = 2, p.b = 0, p.turn_a = turn_r, p.turn_b = true;
    }
  } else {
    if (!turn_r) {  // (k, n) = L^T . g
      p.m = k, p.n = n, p.k = m, p.a = 1, p.b = 0, p.turn_a = !turn_l;
    } else {  // (n, k) = g^T . L
      p.m = n, p.n = k, p.k = m, p.a = 0, p.b = 1, p.turn_a = true, p.turn_b = turn_l;
    }
  }
  return sound(p);
}

std::optional<Product> batch_dot_product(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  if (!alike(in, out) || in[0].ndim() < 2 || in[0].ndim() != in[1].ndim()) return std::nullopt;
  if (attrs.get<int64_t>("axis", -2) != -2) return std::nullopt;
  const std::size_t lead = in[0].shape.size() - 2;
  for (std::size_t i = 0; i < lead; ++i) {
    if (in[0].shape[i] != in[1].shape[i]) return std::nullopt;
  }
  Product p;
  p.batch = count(in[0].shape, 0, lead);
  p.turn_a = attrs.get<bool>("transpose_a", false);
  p.turn_b = attrs.get<bool>("transpose_b", false);
  p.m = in[0].shape[lead + (p.turn_a ? 1 : 0)];
  p.k = in[0].shape[lead + (p.turn_a ? 0 : 1)];
  p.n = in[1].shape[lead + (p.turn_b ? 0 : 1)];
  if (p.k != in[1].shape[lead + (p.turn_b ? 1 : 0)]) return std::nullopt;
  p.alpha = attrs.get<double>("alpha", 1.0);
  return sound(p);
}

}  // namespace mg
