// Matrix products: FullyConnected and its gradients, dot, batch_dot, _linalg_gemm2.
#include "../kernel.h"
#include "onednn.h"

namespace mg::onednn {
namespace {

// C = alpha * op(A) * op(B) + bias, for `batch` pairs of matrices one after the other.
struct Product {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool turn_a = false, turn_b = false;  // A is stored (k, m), B is stored (n, k)
  int a = 0, b = 1, bias = -1;          // which inputs they are
  double alpha = 1.0;

  bool empty() const { return batch < 1 || m < 1 || n < 1 || k < 1; }
  double flops() const { return 2.0 * batch * m * n * k; }
};

class Gemm final : public Step {
 public:
  explicit Gemm(const Product& product) : product_(product) {
    const Product& p = product_;
    threads_ = Threads::for_flops(p.flops());
    Threads guard(threads_);
    const bool stack = p.batch > 1;
    const Layout a = matrix(p.m, p.k, p.turn_a), b = matrix(p.k, p.n, p.turn_b),
                 c = matrix(p.m, p.n, false);
    const Layout bias = p.bias < 0 ? Layout()
                        : stack    ? plain({1, 1, p.n}, Tag::abc)
                                   : plain({1, p.n}, Tag::ab);
    dnnl::primitive_attr attr = user_scratch();
    dnnl::post_ops after;
    if (p.alpha != 1.0) {
      after.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(p.alpha), 0.f);
    }
    attr.set_post_ops(after);
    const auto made = p.bias < 0
        ? dnnl::matmul::primitive_desc(engine(), a, b, c, attr)
        : dnnl::matmul::primitive_desc(engine(), a, b, bias, c, attr);
    implementation_ = made.impl_info_str();
    scratch_ = made.scratchpad_desc().get_size();
    std::vector<Call::Argument> arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b},
                                             {DNNL_ARG_DST, c},
                                             {DNNL_ARG_SCRATCHPAD, made.scratchpad_desc()}};
    if (p.bias >= 0) arguments.push_back({DNNL_ARG_BIAS, bias});
    call_ = Call(dnnl::matmul(made), std::move(arguments));
  }

  bool slow() const { return is_reference(implementation_.c_str()); }
  std::size_t scratch() const override { return scratch_; }

  void run(const void* const* in, void* const* out, void* scratch) override {
    Threads guard(threads_);
    const void* pointers[] = {in[product_.a], in[product_.b], out[0], scratch,
                              product_.bias < 0 ? nullptr : in[product_.bias]};
    call_.run(pointers);
  }

 private:
  Layout matrix(int64_t rows, int64_t columns, bool turned) const {
    if (product_.batch == 1) return plain({rows, columns}, turned ? Tag::ba : Tag::ab);
    return plain({product_.batch, rows, columns}, turned ? Tag::acb : Tag::abc);
  }

  Product product_;
  int threads_ = 1;
  std::string implementation_;
  std::size_t scratch_ = 0;
  Call call_;
};

bool all_float(const std::vector<Desc>& in, const std::vector<Desc>& out) {
  for (const Desc& each : in) {
    if (each.dtype != DType::f32) return false;
  }
  return out.size() == 1 && out[0].dtype == DType::f32;
}

std::unique_ptr<Step> product(const Product& wanted) {
  if (wanted.empty()) return nullptr;
  try {
    auto made = std::make_unique<Gemm>(wanted);
    if (made->slow()) return nullptr;
    return made;
  } catch (const dnnl::error&) {
    return nullptr;  // a case oneDNN has no implementation for
  }
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

std::unique_ptr<Step> make_fc(const std::vector<Desc>& in, const std::vector<Desc>& out,
                              const Attrs& attrs) {
  if (!all_float(in, out) || in.size() < 2 || in[0].ndim() < 1) return nullptr;
  Product p;
  p.m = rows(in[0], attrs.get<bool>("flatten", true));
  p.n = in[1].shape[0];
  p.k = in[1].shape[1];
  p.turn_b = true;
  if (in.size() > 2) p.bias = 2;
  if (p.m * p.k != in[0].size()) return nullptr;
  return product(p);
}

std::unique_ptr<Step> make_fc_grad_data(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                        const Attrs&) {
  if (!all_float(in, out)) return nullptr;
  Product p;
  p.k = in[1].shape[0];
  p.n = in[1].shape[1];
  if (p.k < 1) return nullptr;
  p.m = in[0].size() / p.k;
  if (p.m * p.n != out[0].size()) return nullptr;
  return product(p);
}

std::unique_ptr<Step> make_fc_grad_weight(const std::vector<Desc>& in,
                                          const std::vector<Desc>& out, const Attrs& attrs) {
  if (!all_float(in, out)) return nullptr;
  Product p;
  p.m = out[0].shape[0];
  p.n = out[0].shape[1];
  p.k = rows(in[1], attrs.get<bool>("flatten", true));
  p.turn_a = true;
  if (p.k * p.n != in[1].size() || p.k * p.m != in[0].size()) return nullptr;
  return product(p);
}

std::unique_ptr<Step> make_dot(const std::vector<Desc>& in, const std::vector<Desc>& out,
                               const Attrs& attrs) {
  if (!all_float(in, out) || in[0].ndim() < 1 || in[1].ndim() < 1) return nullptr;
  Product p;
  p.turn_a = attrs.get<bool>("transpose_a", false) && in[0].ndim() > 1;
  p.turn_b = attrs.get<bool>("transpose_b", false) && in[1].ndim() > 1;
  p.k = p.turn_a ? in[0].shape.front() : in[0].shape.back();
  if (p.k < 1 || p.k != (p.turn_b ? in[1].shape.back() : in[1].shape.front())) return nullptr;
  p.m = in[0].size() / p.k;
  p.n = in[1].size() / p.k;
  return product(p);
}

// dot's gradients: with L (m, k) and R (k, n) as dot sees them, dL = g R^T and dR = L^T g. An
// operand that dot turned is stored the other way round, and so is its gradient.
std::unique_ptr<Step> make_dot_grad(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                    const Attrs& attrs) {
  if (!all_float(in, out) || in[1].ndim() < 1 || in[2].ndim() < 1) return nullptr;
  const bool turn_l = attrs.get<bool>("transpose_a", false) && in[1].ndim() > 1;
  const bool turn_r = attrs.get<bool>("transpose_b", false) && in[2].ndim() > 1;
  const int64_t k = turn_l ? in[1].shape.front() : in[1].shape.back();
  if (k < 1) return nullptr;
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
  return product(p);
}

std::unique_ptr<Step> make_batch_dot(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  if (!all_float(in, out) || in[0].ndim() < 2 || in[0].ndim() != in[1].ndim()) return nullptr;
  if (attrs.get<int64_t>("axis", -2) != -2) return nullptr;
  const std::size_t lead = in[0].shape.size() - 2;
  for (std::size_t i = 0; i < lead; ++i) {
    if (in[0].shape[i] != in[1].shape[i]) return nullptr;
  }
  Product p;
  p.batch = count(in[0].shape, 0, lead);
  p.turn_a = attrs.get<bool>("transpose_a", false);
  p.turn_b = attrs.get<bool>("transpose_b", false);
  p.m = in[0].shape[lead + (p.turn_a ? 1 : 0)];
  p.k = in[0].shape[lead + (p.turn_a ? 0 : 1)];
  p.n = in[1].shape[lead + (p.turn_b ? 0 : 1)];
  if (p.k != in[1].shape[lead + (p.turn_b ? 1 : 0)]) return nullptr;
  p.alpha = attrs.get<double>("alpha", 1.0);
  return product(p);
}

MG_KERNEL("FullyConnected", make_fc);
MG_KERNEL("_fc_grad_data", make_fc_grad_data);
MG_KERNEL("_fc_grad_weight", make_fc_grad_weight);
MG_KERNEL("dot", make_dot);
MG_KERNEL("_dot_grad", make_dot_grad);
MG_KERNEL("batch_dot", make_batch_dot);
MG_KERNEL("_linalg_gemm2", make_batch_dot);

}  // namespace
}  // namespace mg::onednn
