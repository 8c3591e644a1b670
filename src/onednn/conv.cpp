// Convolution and its two gradients, in one to three dimensions and either layout.
//
// Data is read and written as it lies wherever oneDNN has a good implementation for that; weights
// are turned into whatever it likes best, once a call. For channels in front the better of "as it
// lies" and "turned" is found by measuring when the step is made.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>

#include <immintrin.h>
#include <sys/mman.h>

#include "../conv_epilogue.h"
#include "../kernel.h"
#include "onednn.h"

namespace mg::onednn {
namespace {

enum class Kind { forward, grad_data, grad_weight };

// One convolution in oneDNN's words.
struct Problem {
  Dims x, w, y, stride, dilate, pad;  // w: (G,) O, I, *K
  bool last = false, weight_last = false, grouped = false;
  ConvEpilogue after;

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

// How the data lies while the primitive runs.
enum class Inside { given, any, other };  // as it comes; oneDNN's choice; channels first <-> last

class Conv final : public Step {
 public:
  Conv(Kind kind, const Problem& problem, Inside inside) : kind_(kind), problem_(problem) {
    threads_ = Threads::for_flops(problem.flops());
    Threads guard(threads_);
    const Problem& p = problem_;
    x_.given = plain(p.x, p.data_tag(p.last));
    y_.given = plain(p.y, p.data_tag(p.last));
    w_.given = plain(p.w, p.weight_tag());
    const Tag data = inside == Inside::any ? Tag::any
                                           : p.data_tag(p.last == (inside == Inside::given));
    const Layout x = plain(p.x, data), y = plain(p.y, data), w = plain(p.w, Tag::any);
    if (p.after.bias && !p.after.norm) bias_ = plain({p.y[1]}, Tag::a);
    // blocked results take their addend unturned
    add_ = inside == Inside::other ? plain(p.y, data) : y_.given;
    dnnl::primitive_attr attr = user_scratch();
    if (kind == Kind::forward) attr.set_post_ops(after());
    const auto way = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        engine(), dnnl::prop_kind::forward_training, way, x, w, bias_, y, p.stride, p.dilate,
        p.pad, p.pad, attr);
    if (kind == Kind::forward) {
      x_.prepare(forward.src_desc(), false);
      y_.prepare(forward.dst_desc(), true);
      if (p.after.add) {
        addend_.given = y_.given;
        addend_.prepare(add_, false);
      }
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
      const void* pointers[10] = {x, w, y, rest};
      int count = 4;
      const ConvEpilogue& after = problem_.after;
      if (after.norm) {
        float* scale = reinterpret_cast<float*>(memory + norm_place_);
        after.normalise(in, problem_.y[1], scale);
        pointers[count++] = scale;
        pointers[count++] = scale + problem_.y[1];
      } else if (after.bias) {
        pointers[count++] = after.bias_of(in);
      }
      if (after.add) pointers[count++] = ready(addend_, after.addend_of(in), memory);
      if (after.relu) pointers[count++] = &kZero;
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
    for (Tensor* tensor : {&x_, &w_, &y_, &addend_}) {
      if (!tensor->turn) continue;
      tensor->place = common_;
      common_ += aligned(tensor->wanted.get_size());
      shared = std::max(shared, tensor->turn.scratch());
    }
    norm_place_ = common_;
    if (problem_.after.norm) common_ += aligned(2 * problem_.y[1] * sizeof(float));
    scratch_ = common_ + shared;
    const int x = kind_ == Kind::grad_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    const int w = kind_ == Kind::grad_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    const int y = kind_ == Kind::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    std::vector<Call::Argument> arguments = {{x, x_.wanted}, {w, w_.wanted}, {y, y_.wanted},
                                             {DNNL_ARG_SCRATCHPAD, made.scratchpad_desc()}};
    if (kind_ == Kind::forward) {
      if (problem_.after.bias && !problem_.after.norm) arguments.push_back({DNNL_ARG_BIAS, bias_});
      arguments.insert(arguments.end(), after_.begin(), after_.end());
    }
    call_ = Call(std::move(primitive), std::move(arguments));
  }

  // The operations after the sums, and their arguments.
  dnnl::post_ops after() {
    const Problem& p = problem_;
    dnnl::post_ops made;
    Dims each_channel(p.y.size(), 1), one(p.y.size(), 1);
    each_channel[1] = p.y[1];
    const Layout channels = plain(each_channel, p.data_tag(p.last));
    auto binary = [&](dnnl::algorithm what, const Layout& layout) {
      after_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(made.len()) | DNNL_ARG_SRC_1, layout});
      made.append_binary(what, layout);
    };
    if (p.after.norm) {
      binary(dnnl::algorithm::binary_mul, channels);
      binary(dnnl::algorithm::binary_add, channels);
    }
    if (p.after.add) binary(dnnl::algorithm::binary_add, add_);
    // oneDNN's own relu makes 0 of nan; a slope of 0 keeps it. Then -0 becomes 0.
    if (p.after.relu) {
      after_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(made.len()) | DNNL_ARG_WEIGHTS,
                        plain(one, p.data_tag(p.last))});
      made.append_prelu(0);
      made.append_eltwise(dnnl::algorithm::eltwise_linear, 1.f, 0.f);
    }
    return made;
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
  Layout bias_, add_;
  Tensor x_, w_, y_, addend_;
  std::size_t common_ = 0, scratch_ = 0;  // turned tensors come first, then what is shared
  std::size_t norm_place_ = 0;
  std::vector<Call::Argument> after_;
  static constexpr float kZero = 0.0f;
  Call call_;
};

// How long this thread has computed: other processes may be running.
double busy_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of the best of a few runs on made-up data. Large weights come from memory, as they do
// where a network has more of them than the cache holds.
double seconds(Conv& step, const std::vector<Desc>& in, const Desc& out) {
  // The pages go back at once: freed memory would stay with the C library.
  std::vector<std::pair<void*, std::size_t>> memory;
  auto take = [&memory](std::size_t bytes) {
    const std::size_t size = aligned(bytes) + 64;
    void* block = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) throw std::bad_alloc();
    std::memset(block, 0, size);
    memory.emplace_back(block, size);
    return block;
  };
  std::vector<const void*> inputs;
  for (const Desc& each : in) inputs.push_back(take(each.bytes()));
  void* const result = take(out.bytes());
  void* const scratch = take(step.scratch());
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const char* weight = static_cast<const char*>(inputs[1]);
    for (int64_t at = 0; in[1].bytes() > (1 << 19) && at < in[1].bytes(); at += 64) {
      _mm_clflush(weight + at);
    }
    const double start = busy_seconds();
    step.run(inputs.data(), &result, scratch);
    best = std::min(best, busy_seconds() - start);
  }
  for (const auto& [block, size] : memory) munmap(block, size);
  return best;
}

double elements(const Dims& dims) {
  double n = 1.0;
  for (int64_t d : dims) n *= static_cast<double>(d);
  return n;
}

// All that the time of a convolution depends on.
std::vector<int64_t> fingerprint(Kind kind, const Problem& p) {
  std::vector<int64_t> all = {static_cast<int64_t>(kind), p.last, p.weight_last, p.after.norm,
                              p.after.add, p.after.relu, Threads::for_flops(p.flops())};
  for (const Dims* dims : {&p.x, &p.w, &p.y, &p.stride, &p.dilate, &p.pad}) {
    all.push_back(static_cast<int64_t>(dims->size()));
    all.insert(all.end(), dims->begin(), dims->end());
  }
  return all;
}

std::unique_ptr<Step> choose(Kind kind, const Problem& problem, const std::vector<Desc>& in,
                             const Desc& out) {
  // Channels last runs well as it is, except where turning the weights is most of the work.
  const bool heavy = elements(problem.w) > elements(problem.x);
  std::unique_ptr<Conv> best;
  if (problem.last && !heavy) best = attempt<Conv>(kind, problem, Inside::given);
  if (best) return best;
  static std::mutex lock;
  static std::map<std::vector<int64_t>, Inside> known;
  const std::lock_guard<std::mutex> guard(lock);
  const auto found = known.find(fingerprint(kind, problem));
  if (found != known.end()) return attempt<Conv>(kind, problem, found->second);
  double least = 0.0;
  for (Inside inside : {Inside::given, Inside::any, Inside::other}) {
    auto other = attempt<Conv>(kind, problem, inside);
    if (!other) continue;
    const double time = seconds(*other, in, out);
    if (!best || time < 0.95 * least) {
      least = time;
      best = std::move(other);
      known[fingerprint(kind, problem)] = inside;
    }
  }
  return best;
}

std::unique_ptr<Step> make_forward(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                   const Attrs& attrs) {
  Problem problem;
  if (in.size() < 2 || !read_problem(in[0], in[1], out[0], attrs, problem)) return nullptr;
  const auto after = read_epilogue(in, out[0], attrs, problem.y[1]);
  if (!after) return nullptr;
  problem.after = *after;
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
MG_KERNEL("_conv_fused", make_forward);
MG_KERNEL("_conv_grad_data", make_grad_data);
MG_KERNEL("_conv_grad_weight", make_grad_weight);

}  // namespace
}  // namespace mg::onednn
