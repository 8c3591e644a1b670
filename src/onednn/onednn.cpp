#include "onednn.h"

#include <cstring>

#include "../parallel.h"

namespace mg::onednn {

dnnl::engine& engine() {
  static dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

namespace {

dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

}  // namespace

Layout plain(const Dims& dims, Tag tag) {
  return Layout(dims, dnnl::memory::data_type::f32, tag);
}

Threads::Threads(int count) : before_(omp_get_max_threads()) {
  if (count != before_) omp_set_num_threads(count);
  if (count > 1) team_rest();  // OpenMP's threads need the cores
}

Threads::~Threads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

int Threads::for_flops(double flops) {
  return threads_for(flops / 80.0);  // a core does about 80 a nanosecond
}

dnnl::primitive_attr user_scratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

bool is_reference(const char* implementation) {
  return std::strncmp(implementation, "ref", 3) == 0;
}

Call::Call(dnnl::primitive primitive, std::vector<Argument> arguments)
    : primitive_(std::move(primitive)), arguments_(std::move(arguments)) {
  for (const Argument& each : arguments_) {
    memories_.emplace_back(each.layout, engine(), nullptr);
  }
}

void Call::run(const void* const* pointers) const {
  constexpr std::size_t most = 12;
  dnnl_exec_arg_t given[most];
  const std::size_t count = arguments_.size();
  for (std::size_t i = 0; i < count && i < most; ++i) {
    memories_[i].set_data_handle(const_cast<void*>(pointers[i]));
    given[i] = {arguments_[i].name, memories_[i].get()};
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream().get(), static_cast<int>(count), given);
  dnnl::error::wrap_c_api(status, "oneDNN could not run a primitive");
}

Reorder::Reorder(const Layout& from, const Layout& to) {
  if (from == to) return;
  dnnl::reorder::primitive_desc made(engine(), from, engine(), to, user_scratch());
  scratch_ = made.scratchpad_desc().get_size();
  call_ = Call(dnnl::reorder(made), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to},
                                     {DNNL_ARG_SCRATCHPAD, made.scratchpad_desc()}});
}

void Reorder::run(const void* from, void* to, void* scratch) const {
  const void* pointers[] = {from, to, scratch};
  call_.run(pointers);
}

}  // namespace mg::onednn
