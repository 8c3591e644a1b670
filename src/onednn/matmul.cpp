#include "matmul.h"

namespace mg::onednn {

Layout matrix(int64_t rows, int64_t columns, int64_t stride) {
  return Layout({rows, columns}, dnnl::memory::data_type::f32, Dims{stride, 1});
}

Layout turned(int64_t rows, int64_t columns, int64_t stride) {
  return Layout({rows, columns}, dnnl::memory::data_type::f32, Dims{1, stride});
}

Layout packed(int64_t rows, int64_t columns) { return plain({rows, columns}, Tag::any); }

Matmul::Matmul(const Layout& a, const Layout& b, const Layout& c, int threads, Into into, bool bias)
    : threads_(threads) {
  Threads guard(threads_);
  dnnl::primitive_attr attr = user_scratch();
  if (into == add) {
    dnnl::post_ops after;
    after.append_sum();
    attr.set_post_ops(after);
  }
  const Layout shift = bias ? plain({1, c.get_dims()[1]}, Tag::ab) : Layout();
  const auto made = bias ? dnnl::matmul::primitive_desc(engine(), a, b, shift, c, attr)
                         : dnnl::matmul::primitive_desc(engine(), a, b, c, attr);
  slow_ = is_reference(made.impl_info_str());
  weights_ = made.weights_desc();
  scratch_ = made.scratchpad_desc().get_size();
  std::vector<Call::Argument> arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, weights_},
                                           {DNNL_ARG_DST, c},
                                           {DNNL_ARG_SCRATCHPAD, made.scratchpad_desc()}};
  if (bias) arguments.push_back({DNNL_ARG_BIAS, shift});
  call_ = Call(dnnl::matmul(made), std::move(arguments));
}

void Matmul::run(const void* a, const void* b, void* c, void* scratch, const void* bias) const {
  Threads guard(threads_);
  const void* pointers[] = {a, b, c, scratch, bias};
  call_.run(pointers);
}

}  // namespace mg::onednn
