// Matrix products by oneDNN: what src/kernels/gemm.cpp leaves.
#include "../product.h"
#include "onednn.h"

namespace mg::onednn {
namespace {

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

template <ProductOf product_of>
std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs& attrs) {
  const std::optional<Product> wanted = product_of(in, out, attrs);
  if (!wanted || in[0].dtype != DType::f32) return nullptr;
  return attempt<Gemm>(*wanted);
}

constexpr int kLast = 0;  // of all who take it

MG_PRODUCTS(make, kLast);
MG_STACKED_PRODUCTS(make, kLast);

}  // namespace
}  // namespace mg::onednn
