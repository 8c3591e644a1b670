// Convolution and its two gradients, in one to three dimensions and either layout.
//
// Data is read and written as it lies wherever oneDNN has a good implementation for that; weights
// are turned into whatever it likes best, once a call. For channels in front the better of "as it
// lies" and "turned" is found by measuring when the step is made.
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "../kernel.h"
#include "onednn.h"

namespace mg::onednn {
namespace {

enum class Kind { forward, grad_data, grad_weight };

// One convolution in oneDNN's words.
struct Problem {
  Dims x, w, y, stride, dilate, pad;  // w: (G,) O, I, *K
  bool last = false, weight_last = false, grouped = false, bias = false;
  std::string act;

  int spatial() const { return static_cast<int>(stride.size()); }
  double flops() const {
    double n = 2.0;
    for (int64_t d : y) n *= static_cast<double>(d);
    for (std::size_t i = grouped ? 2 : 1; i < w.size(); ++i) n *= static_cast<double>(w[i]);
    return n;
  }
  Tag data_tag(bool channels_last) const {
    static const Tag tags[2][3] = {{Tag::ncw, Tag::nchw, Tag::ncdhw},
                                   {Tag::nwc, Tag::nhwc, Tag::ndhwc}};
    return tags[channels_last][spatial() - 1];
  }
  Tag weight_tag() const {
    static const Tag tags[2][2][3] = {
        {{Tag::oiw, Tag::oihw, Tag::oidhw}, {Tag::owi, Tag::ohwi, Tag::odhwi}},
        {{Tag::goiw, Tag::goihw, Tag::goidhw}, {Tag::gowi, Tag::gohwi, Tag::godhwi}}};
    return tags[grouped][weight_last][spatial() - 1];
  }
};

Dims per_axis(const Attrs& attrs, const char* name, std::size_t rank, int64_t fallback) {
  Dims given = attrs.get<std::vector<int64_t>>(name, {});
  return given.empty() ? Dims(rank, fallback) : given;
}

// (N, *S, C) as (N, C, *S) where `last`.
Dims channels_first(const std::vector<int64_t>& shape, bool last) {
  Dims dims(shape.begin(), shape.end());
  if (last) {
    dims.insert(dims.begin() + 1, dims.back());
    dims.pop_back();
  }
  return dims;
}

bool read_problem(const Desc& x, const Desc& w, const Desc& y, const Attrs& attrs, Problem& p) {
  for (const Desc* each : {&x, &w, &y}) {
    if (each->dtype != DType::f32 || each->size() < 1) return false;
  }
  if (x.ndim() < 3 || x.ndim() > 5 || x.ndim() != w.ndim() || x.ndim() != y.ndim()) return false;
  const std::string layout = attrs.get<std::string>("layout", "NCHW");
  p.last = layout.size() > 1 && layout[1] != 'C';
  p.weight_last = p.last && layout.find('/') == std::string::npos;
  const std::size_t rank = x.shape.size() - 2;
  p.x = channels_first(x.shape, p.last);
  p.w = channels_first(w.shape, p.weight_last);
  p.y = channels_first(y.shape, p.last);
  p.stride = per_axis(attrs, "stride", rank, 1);
  p.dilate = per_axis(attrs, "dilate", rank, 1);
  p.pad = per_axis(attrs, "pad", rank, 0);
  const int64_t groups = attrs.get<int64_t>("num_group", 1);
  if (p.x[1] != p.w[1] * groups || p.w[0] != p.y[1] || groups < 1 || p.w[0] % groups) return false;
  for (std::size_t i = 0; i < rank; ++i) {
    const int64_t reach = (p.w[i + 2] - 1) * p.dilate[i] + 1;
    if ((p.x[i + 2] + 2 * p.pad[i] - reach) / p.stride[i] + 1 != p.y[i + 2]) return false;
  }
  p.grouped = groups > 1;
  if (p.grouped) {
    p.w[0] /= groups;
    p.w.insert(p.w.begin(), groups);
  }
  for (int64_t& d : p.dilate) d -= 1;  // oneDNN counts the gaps
  return true;
}

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// One tensor of a primitive: as the caller has it, as the primitive wants it.
struct Tensor {
  Layout given, wanted;
  Reorder turn;
  std::size_t place = 0;  // in the temporary memory, where `turn` is needed

  void prepare(const Layout& wants, bool written) {
    wanted = wants;
    turn = written ? Reorder(wanted, given) : Reorder(given, wanted);
  }
};

class Conv final : public Step {
 public:
  // `as_it_lies`: keep the layout of the data; otherwise oneDNN's choice and reorders.
  Conv(Kind kind, const Problem& problem, bool as_it_lies) : kind_(kind), problem_(problem) {
    threads_ = Threads::for_flops(problem.flops());
    Threads guard(threads_);
    const Problem& p = problem_;
    x_.given = plain(p.x, p.data_tag(p.last));
    y_.given = plain(p.y, p.data_tag(p.last));
    w_.given = plain(p.w, p.weight_tag());
    const Tag data = as_it_lies ? p.data_tag(p.last) : Tag::any;
    const Layout x = plain(p.x, data), y = plain(p.y, data), w = plain(p.w, Tag::any);
    if (p.bias) bias_ = plain({p.y[1]}, Tag::a);
    dnnl::primitive_attr attr = user_scratch();
    if (p.act == "relu") {
      dnnl::post_ops after;
      after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.f, 0.f);
      attr.set_post_ops(after);
    }
    using dnnl::algorithm;
    const auto way = algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        engine(), dnnl::prop_kind::forward_training, way, x, w, bias_, y, p.stride, p.dilate,
        p.pad, p.pad, kind == Kind::forward ? attr : user_scratch());
    if (kind == Kind::forward) {
      x_.prepare(forward.src_desc(), false);
      y_.prepare(forward.dst_desc(), true);
      w_.prepare(forward.weights_desc(), false);
      finish(forward, dnnl::convolution_forward(forward));
    } else if (kind == Kind::grad_data) {
      const dnnl::convolution_backward_data::primitive_desc made(
          engine(), way, x, w, y, p.stride, p.dilate, p.pad, p.pad, forward, attr);
      x_.prepare(made.diff_src_desc(), true);
      y_.prepare(made.diff_dst_desc(), false);
      w_.prepare(made.weights_desc(), false);
      finish(made, dnnl::convolution_backward_data(made));
    } else {
      const dnnl::convolution_backward_weights::primitive_desc made(
          engine(), way, x, w, y, p.stride, p.dilate, p.pad, p.pad, forward, attr);
      x_.prepare(made.src_desc(), false);
      y_.prepare(made.diff_dst_desc(), false);
      w_.prepare(made.diff_weights_desc(), true);
      finish(made, dnnl::convolution_backward_weights(made));
    }
  }

  bool slow() const { return is_reference(implementation_.c_str()); }
  std::size_t scratch() const override { return scratch_; }

  void run(const void* const* in, void* const* out, void* scratch) override {
    Threads guard(threads_);
    char* memory = static_cast<char*>(scratch);
    void* const rest = memory + common_;
    if (kind_ == Kind::forward) {
      const void* x = ready(x_, in[0], memory);
      const void* w = ready(w_, in[1], memory);
      void* y = room(y_, out[0], memory);
      const void* pointers[] = {x, w, y, rest, problem_.bias ? in[2] : nullptr};
      call_.run(pointers);
      deliver(y_, y, out[0], rest);
    } else if (kind_ == Kind::grad_data) {
      const void* y = ready(y_, in[0], memory);
      const void* w = ready(w_, in[1], memory);
      void* x = room(x_, out[0], memory);
      const void* pointers[] = {x, w, y, rest};
      call_.run(pointers);
      deliver(x_, x, out[0], rest);
    } else {
      const void* y = ready(y_, in[0], memory);
      const void* x = ready(x_, in[1], memory);
      void* w = room(w_, out[0], memory);
      const void* pointers[] = {x, w, y, rest};
      call_.run(pointers);
      deliver(w_, w, out[0], rest);
    }
  }

 private:
  template <class Made>
  void finish(const Made& made, dnnl::primitive primitive) {
    implementation_ = made.impl_info_str();
    std::size_t shared = made.scratchpad_desc().get_size();
    for (Tensor* tensor : {&x_, &w_, &y_}) {
      if (!tensor->turn) continue;
      tensor->place = common_;
      common_ += aligned(tensor->wanted.get_size());
      shared = std::max(shared, tensor->turn.scratch());
    }
    scratch_ = common_ + shared;
    const int x = kind_ == Kind::grad_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    const int w = kind_ == Kind::grad_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    const int y = kind_ == Kind::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    std::vector<Call::Argument> arguments = {{x, x_.wanted}, {w, w_.wanted}, {y, y_.wanted},
                                             {DNNL_ARG_SCRATCHPAD, made.scratchpad_desc()}};
    if (problem_.bias && kind_ == Kind::forward) arguments.push_back({DNNL_ARG_BIAS, bias_});
    call_ = Call(std::move(primitive), std::move(arguments));
  }

  const void* ready(const Tensor& tensor, const void* given, char* memory) const {
    if (!tensor.turn) return given;
    tensor.turn.run(given, memory + tensor.place, memory + common_);
    return memory + tensor.place;
  }
  static void* room(const Tensor& tensor, void* given, char* memory) {
    return tensor.turn ? memory + tensor.place : given;
  }
  static void deliver(const Tensor& tensor, const void* made, void* given, void* rest) {
    if (tensor.turn) tensor.turn.run(made, given, rest);
  }

  Kind kind_;
  Problem problem_;
  int threads_ = 1;
  std::string implementation_;
  Layout bias_;
  Tensor x_, w_, y_;
  std::size_t common_ = 0, scratch_ = 0;  // turned tensors come first, then what is shared
  Call call_;
};

std::unique_ptr<Conv> attempt(Kind kind, const Problem& problem, bool as_it_lies) {
  try {
    auto made = std::make_unique<Conv>(kind, problem, as_it_lies);
    if (made->slow()) return nullptr;
    return made;
  } catch (const dnnl::error&) {
    return nullptr;  // a case oneDNN has no implementation for
  }
}

// Seconds of the best of a few runs on made-up data.
double seconds(Conv& step, const std::vector<Desc>& in, const Desc& out) {
  std::vector<void*> memory;
  auto take = [&memory](std::size_t bytes) {
    void* block = std::aligned_alloc(64, aligned(bytes) + 64);
    if (block == nullptr) throw std::bad_alloc();
    std::memset(block, 0, aligned(bytes) + 64);
    memory.push_back(block);
    return block;
  };
  std::vector<const void*> inputs;
  for (const Desc& each : in) inputs.push_back(take(each.bytes()));
  void* const result = take(out.bytes());
  void* const scratch = take(step.scratch());
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step.run(inputs.data(), &result, scratch);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
                              .count());
  }
  for (void* block : memory) std::free(block);
  return best;
}

std::unique_ptr<Step> choose(Kind kind, const Problem& problem, const std::vector<Desc>& in,
                             const Desc& out) {
  auto plain = attempt(kind, problem, true);
  if (plain && problem.last) return plain;
  auto turned = attempt(kind, problem, false);
  if (!plain) return turned;
  if (!turned) return plain;
  if (seconds(*plain, in, out) <= seconds(*turned, in, out)) return plain;
  return turned;
}

std::unique_ptr<Step> make_forward(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                   const Attrs& attrs) {
  Problem problem;
  if (in.size() < 2 || !read_problem(in[0], in[1], out[0], attrs, problem)) return nullptr;
  problem.bias = in.size() > 2;
  if (problem.bias && (in[2].dtype != DType::f32 || in[2].size() != problem.y[1])) return nullptr;
  problem.act = attrs.get<std::string>("act_type", "");
  if (!problem.act.empty() && problem.act != "relu") return nullptr;
  return choose(Kind::forward, problem, in, out[0]);
}

std::unique_ptr<Step> make_grad_data(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                     const Attrs& attrs) {
  Problem problem;
  if (!read_problem(out[0], in[1], in[0], attrs, problem)) return nullptr;
  return choose(Kind::grad_data, problem, in, out[0]);
}

std::unique_ptr<Step> make_grad_weight(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                       const Attrs& attrs) {
  Problem problem;
  if (!read_problem(in[1], out[0], in[0], attrs, problem)) return nullptr;
  return choose(Kind::grad_weight, problem, in, out[0]);
}

MG_KERNEL("Convolution", make_forward);
MG_KERNEL("_conv_act", make_forward);
MG_KERNEL("_conv_grad_data", make_grad_data);
MG_KERNEL("_conv_grad_weight", make_grad_weight);

}  // namespace
}  // namespace mg::onednn
