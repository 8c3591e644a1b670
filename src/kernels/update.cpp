// Optimizer updates: one pass over weight, gradient and states, as element-wise programs whose
// further results are written over the states.
#include "kernels/update.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "isa.h"
#include "kernels/cast.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

using elementwise::Instruction;
using elementwise::Operand;
using elementwise::Program;
using elementwise::Word;

// Programs, written call by call: a(0) is the weight, a(1) the gradient, a(2)... the states.
class Writer {
 public:
  static Operand a(int index) { return {Operand::input, index}; }
  Operand number(double value) {
    program.numbers.push_back(value);
    return {Operand::number, static_cast<int>(program.numbers.size()) - 1};
  }
  Operand operator()(Word word, Operand x) { return put({word, 1, {x}}); }
  Operand operator()(Word word, Operand x, Operand y) { return put({word, 2, {x, y}}); }
  Operand operator()(Word word, Operand x, double y) { return put({word, 2, {x, number(y)}}); }

  Program program;

 private:
  Operand put(const Instruction& one) {
    program.code.push_back(one);
    return {Operand::result, static_cast<int>(program.code.size()) - 1};
  }
};

struct Settings {
  double lr, wd, rescale, clip, momentum;
  explicit Settings(const Attrs& attrs)
      : lr(attrs.get<double>("lr", 0)), wd(attrs.get<double>("wd", 0)),
        rescale(attrs.get<double>("rescale_grad", 1)),
        clip(attrs.get<double>("clip_gradient", -1)), momentum(attrs.get<double>("momentum", 0)) {}
};

Operand clipped(Writer& w, Operand g, double limit) {
  return limit >= 0 ? w(Word::min, w(Word::max, g, -limit), limit) : g;
}

Operand prepared(Writer& w, const Settings& s) {
  return clipped(w, w(Word::mul, w.a(1), s.rescale), s.clip);
}

// g + wd weight
Operand with_decay(Writer& w, const Settings& s, Operand g) {
  return s.wd != 0 ? w(Word::add, w(Word::mul, w.a(0), s.wd), g) : g;
}

Operand decayed(Writer& w, const Settings& s) {
  return clipped(w, with_decay(w, s, w(Word::mul, w.a(1), s.rescale)), s.clip);
}

// A decay as MXNet keeps it, a float.
double rounded(double decay) { return static_cast<double>(static_cast<float>(decay)); }

// state = decay state + (1 - decay) fresh
Operand average(Writer& w, Operand state, double decay, Operand fresh) {
  decay = rounded(decay);
  const Operand kept = w(Word::mul, state, decay);
  return w(Word::add, w(Word::mul, fresh, 1.0 - decay), kept);
}

// Each of these gives the program whose results are the new weight and the new states. What is
// written over something that is read again later goes through a copy at the end.

Program sgd(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const Operand g = w(Word::mul, prepared(w, s), s.lr);
  const Operand kept = w(Word::mul, w.a(0), 1.0 - s.lr * s.wd);
  w.program.outputs = {w(Word::sub, kept, g)};
  return w.program;
}

Program sgd_mom(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const Operand g = w(Word::mul, prepared(w, s), s.lr);
  Operand mom = w(Word::mul, w.a(2), s.momentum);
  if (s.wd != 0) mom = w(Word::sub, mom, w(Word::mul, w.a(0), s.lr * s.wd));
  mom = w(Word::sub, mom, g);
  w.program.outputs = {w(Word::add, w.a(0), mom), mom};
  return w.program;
}

// The same in one loop: three reads and two writes an element, where passes over tiles have twelve.
MG_CLONES void sgd_mom_loop(float* __restrict weight, const float* __restrict grad,
                            float* __restrict state, int64_t n, const float* numbers) {
  const float rescale = numbers[0], lr = numbers[1], momentum = numbers[2];
  for (int64_t i = 0; i < n; ++i) {
    const float mom = state[i] * momentum - grad[i] * rescale * lr;
    state[i] = mom;
    weight[i] += mom;
  }
}

MG_CLONES void sgd_mom_decay_loop(float* __restrict weight, const float* __restrict grad,
                                  float* __restrict state, int64_t n, const float* numbers) {
  const float rescale = numbers[0], lr = numbers[1], momentum = numbers[2], decay = numbers[3];
  for (int64_t i = 0; i < n; ++i) {
    const float mom = state[i] * momentum - weight[i] * decay - grad[i] * rescale * lr;
    state[i] = mom;
    weight[i] += mom;
  }
}

DirectUpdate sgd_mom_direct(const Attrs& attrs) {
  const Settings s(attrs);
  if (s.clip >= 0) return {nullptr, {}};
  return {s.wd != 0 ? sgd_mom_decay_loop : sgd_mom_loop,
          {static_cast<float>(s.rescale), static_cast<float>(s.lr),
           static_cast<float>(s.momentum), static_cast<float>(s.lr * s.wd)}};
}

Program nag_mom(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const Operand g = w(Word::mul, with_decay(w, s, prepared(w, s)), s.lr);
  const Operand ahead = w(Word::add, w.a(0), w(Word::mul, w.a(2), s.momentum * s.momentum));
  const Operand fresh = w(Word::sub, ahead, w(Word::mul, g, s.momentum + 1));
  Operand mom = w(Word::sub, w(Word::mul, w.a(2), s.momentum), g);
  Operand kept = fresh;
  if (s.wd != 0) {
    mom = w(Word::sub, mom, w(Word::mul, w(Word::sub, fresh, w.a(0)), s.lr * s.wd));
    kept = w(Word::copy, fresh);
  }
  w.program.outputs = {kept, mom};
  return w.program;
}

Program adam(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const Operand g = decayed(w, s);
  const Operand var = average(w, w.a(3), attrs.get<double>("beta2", 0.999), w(Word::square, g));
  const Operand mean = average(w, w.a(2), attrs.get<double>("beta1", 0.9), g);
  const Operand root = w(Word::add, w(Word::sqrt, var), attrs.get<double>("epsilon", 1e-8));
  const Operand step = w(Word::div, w(Word::mul, mean, s.lr), root);
  w.program.outputs = {w(Word::sub, w.a(0), step), mean, var};
  return w.program;
}

Program rmsprop(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const Operand g = decayed(w, s);
  const Operand n = average(w, w.a(2), attrs.get<double>("gamma1", 0.95), w(Word::square, g));
  const Operand root = w(Word::sqrt, w(Word::add, n, attrs.get<double>("epsilon", 1e-8)));
  const Operand step = w(Word::mul, w(Word::div, g, root), s.lr);
  const Operand fresh = w(Word::sub, w.a(0), step);
  w.program.outputs = {clipped(w, fresh, attrs.get<double>("clip_weights", -1)), n};
  return w.program;
}

Program rmspropalex(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const double gamma1 = attrs.get<double>("gamma1", 0.95);
  const Operand slope = decayed(w, s);
  const Operand n = average(w, w.a(2), gamma1, w(Word::square, slope));
  const Operand g = average(w, w.a(3), gamma1, slope);
  const Operand spread = w(Word::sub, n, w(Word::square, g));
  const Operand root = w(Word::sqrt, w(Word::add, spread, attrs.get<double>("epsilon", 1e-8)));
  const Operand step = w(Word::mul, w(Word::div, slope, root), s.lr);
  const Operand delta =
      w(Word::sub, w(Word::mul, w.a(4), attrs.get<double>("gamma2", 0.9)), step);
  const Operand fresh = w(Word::add, w.a(0), delta);
  w.program.outputs = {clipped(w, fresh, attrs.get<double>("clip_weights", -1)), n, g, delta};
  return w.program;
}

Program signsgd(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const Operand kept = w(Word::mul, w.a(0), 1.0 - s.lr * s.wd);
  w.program.outputs = {w(Word::sub, kept, w(Word::mul, w(Word::sign, w.a(1)), s.lr))};
  return w.program;
}

Program signum(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const Operand g = with_decay(w, s, prepared(w, s));
  const Operand mom = w(Word::sub, w(Word::mul, w.a(2), s.momentum), w(Word::mul, g, 1 - s.momentum));
  const Operand kept = w(Word::mul, w.a(0), 1.0 - s.lr * attrs.get<double>("wd_lh", 0));
  w.program.outputs = {w(Word::add, kept, w(Word::mul, w(Word::sign, mom), s.lr)), mom};
  return w.program;
}

Program ftrl(const Attrs& attrs) {
  Writer w;
  const Settings s(attrs);
  const double lamda1 = attrs.get<double>("lamda1", 0.01);
  const Operand g = prepared(w, s);
  const Operand before = w(Word::sqrt, w.a(3));
  const Operand n = w(Word::add, w.a(3), w(Word::square, g));
  const Operand after = w(Word::sqrt, n);
  const Operand pull = w(Word::div, w(Word::mul, w(Word::sub, after, before), w.a(0)), s.lr);
  const Operand z = w(Word::add, w.a(2), w(Word::sub, g, pull));
  const Operand rate =
      w(Word::add, w(Word::div, w(Word::add, after, attrs.get<double>("beta", 1)), s.lr), s.wd);
  const Operand step = w(Word::div, w(Word::sub, w(Word::mul, w(Word::sign, z), lamda1), z), rate);
  const Operand far = w(Word::gt, w(Word::abs, z), lamda1);
  w.program.outputs = {w(Word::mul, step, far), z, n};
  return w.program;
}

Program ftml(const Attrs& attrs) {
  Writer w;
  Settings s(attrs);
  s.clip = attrs.get<double>("clip_grad", -1);
  const double beta1 = rounded(attrs.get<double>("beta1", 0.6));
  const double beta2 = rounded(attrs.get<double>("beta2", 0.999));
  const auto t = static_cast<double>(attrs.get<int64_t>("t", 1));
  const Operand g = decayed(w, s);
  const Operand v = average(w, w.a(3), beta2, w(Word::square, g));
  const Operand root = w(Word::sqrt, w(Word::div, v, 1 - std::pow(beta2, t)));
  const Operand d = w(Word::mul, w(Word::add, root, attrs.get<double>("epsilon", 1e-8)),
                      (1 - std::pow(beta1, t)) / s.lr);
  const Operand moved = w(Word::sub, d, w(Word::mul, w.a(2), beta1));
  const Operand fresh =
      w(Word::sub, w(Word::mul, g, 1 - beta1), w(Word::mul, moved, w.a(0)));
  const Operand z = w(Word::add, w(Word::mul, w.a(4), beta1), fresh);
  w.program.outputs = {w(Word::neg, w(Word::div, z, d)), w(Word::copy, d), v, z};
  return w.program;
}

const std::map<std::string, UpdateRule>& rules() {
  static const std::map<std::string, UpdateRule> all = {
      {"sgd_update", {sgd, 0}},           {"sgd_mom_update", {sgd_mom, 1, sgd_mom_direct}},
      {"nag_mom_update", {nag_mom, 1}},   {"adam_update", {adam, 2}},
      {"rmsprop_update", {rmsprop, 1}},   {"rmspropalex_update", {rmspropalex, 3}},
      {"signsgd_update", {signsgd, 0}},   {"signum_update", {signum, 1}},
      {"ftrl_update", {ftrl, 2}},         {"ftml_update", {ftml, 3}}};
  return all;
}

// Runs the program of a rule; its further results are written over the states.
class Update final : public Step {
 public:
  Update(const UpdateRule& rule, const Desc& weight)
      : rule_(rule), weight_(weight) {}

  bool adjust(const Attrs& attrs) override {
    Program program = rule_.program(attrs);
    program.inputs = 2 + rule_.states;
    const std::vector<Desc> in(static_cast<size_t>(2 + rule_.states), weight_);
    const std::vector<Desc> out(static_cast<size_t>(1 + rule_.states), weight_);
    auto step = elementwise::make_step(
        std::move(program), in, std::vector<std::vector<int64_t>>(in.size(), weight_.shape), out,
        true);
    if (step == nullptr) return false;
    for (int i = 0; i < rule_.states; ++i)
      if (!step->inplace(2 + i, 1 + i)) return false;
    step_ = std::move(step);
    return true;
  }

  bool inplace(int input, int output) const override {
    return input == 0 && output == 0 && step_->inplace(0, 0);
  }

  void run(const void* const* in, void* const* out, void* scratch) override {
    void* results[5] = {out[0]};
    for (int i = 0; i < rule_.states; ++i) results[i + 1] = mutable_in<void>(in[2 + i]);
    step_->run(in, results, scratch);
  }

 private:
  UpdateRule rule_;
  Desc weight_;
  std::unique_ptr<Step> step_;
};

template <const char* name>
std::unique_ptr<Step> make_update(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                  const Attrs& attrs) {
  const UpdateRule& rule = rules().at(name);
  if (in.size() != static_cast<size_t>(2 + rule.states)) return nullptr;
  for (const Desc& one : in)
    if (one.shape != out[0].shape || one.dtype != out[0].dtype) return nullptr;
  auto step = std::make_unique<Update>(rule, out[0]);
  return step->adjust(attrs) ? std::move(step) : nullptr;
}

// The same for states and a copy of the weight in float32, which comes last: that is updated, and
// the new weight (float16, say) rounded from it, piece by piece in the cache.
class MixedUpdate final : public Step {
 public:
  MixedUpdate(const UpdateRule& rule, const Desc& weight)
      : rule_(rule), size_(weight.size()), own_(size_of(weight.dtype)),
        widen_(cast_loop(weight.dtype, DType::f32)), narrow_(cast_loop(DType::f32, weight.dtype)) {}

  bool adjust(const Attrs& attrs) override {
    Program program = rule_.program(attrs);
    program.inputs = 2 + rule_.states;
    std::vector<double> numbers = program.numbers;
    auto sweep = elementwise::make_sweep(std::move(program), DType::f32);
    bool well = sweep != nullptr && sweep->inplace(0, 0);
    for (int i = 0; well && i < rule_.states; ++i) well = sweep->inplace(2 + i, 1 + i);
    if (!well) return false;
    sweep_ = std::move(sweep);
    numbers_ = std::move(numbers);
    return true;
  }

  bool inplace(int input, int output) const override { return input == 0 && output == 0; }

  void run(const void* const* in, void* const* out, void*) override {
    const auto* grad = static_cast<const char*>(in[1]);
    auto* rounded = static_cast<char*>(out[0]);
    const auto state = [&](int i) { return mutable_in<float>(in[2 + i]); };  // the last: the weight
    parallel_for(size_, sweep_->cost() + 0.3, [&](int64_t begin, int64_t end) {
      alignas(64) float wide[kPiece];
      for (int64_t at = begin; at < end; at += kPiece) {
        const int64_t n = std::min(kPiece, end - at);
        float* weight = state(rule_.states) + at;
        widen_(grad + at * own_, wide, n);
        const void* from[5] = {weight, wide};
        void* to[4] = {weight};
        for (int i = 0; i < rule_.states; ++i) from[2 + i] = to[1 + i] = state(i) + at;
        sweep_->run(from, to, 0, n, numbers_.data());
        narrow_(weight, rounded + at * own_, n);
      }
    }, kPiece);
  }

 private:
  static constexpr int64_t kPiece = 1024;
  UpdateRule rule_;
  int64_t size_, own_;  // own_: bytes of a number of the weight and the gradient
  CastLoop widen_, narrow_;
  std::unique_ptr<elementwise::Sweep> sweep_;
  std::vector<double> numbers_;
};

template <const char* name>
std::unique_ptr<Step> make_mixed(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                 const Attrs& attrs) {
  const UpdateRule& rule = rules().at(name);
  const DType own = out[0].dtype;
  bool well = in.size() == static_cast<size_t>(3 + rule.states) &&
              (own == DType::f16 || own == DType::f32);
  for (size_t i = 0; well && i < in.size(); ++i) {
    well = in[i].shape == out[0].shape && in[i].dtype == (i < 2 ? own : DType::f32);
  }
  if (!well) return nullptr;
  auto step = std::make_unique<MixedUpdate>(rule, out[0]);
  return step->adjust(attrs) ? std::move(step) : nullptr;
}

#define MG_UPDATE(name)                      \
  constexpr char name##_word[] = #name;      \
  MG_KERNEL(#name, make_update<name##_word>)

MG_UPDATE(sgd_update);
MG_UPDATE(sgd_mom_update);
MG_UPDATE(nag_mom_update);
MG_UPDATE(adam_update);
MG_UPDATE(rmsprop_update);
MG_UPDATE(rmspropalex_update);
MG_UPDATE(signsgd_update);
MG_UPDATE(signum_update);
MG_UPDATE(ftrl_update);
MG_UPDATE(ftml_update);
MG_KERNEL("mp_sgd_update", make_mixed<sgd_update_word>);
MG_KERNEL("mp_sgd_mom_update", make_mixed<sgd_mom_update_word>);
MG_KERNEL("mp_nag_mom_update", make_mixed<nag_mom_update_word>);

}  // namespace

const UpdateRule* find_update_rule(const std::string& op_name) {
  auto found = rules().find(op_name);
  return found == rules().end() ? nullptr : &found->second;
}

}  // namespace mg
