// Element-wise operators by name: each is a program, most of one instruction.
#include <cstdlib>
#include <iterator>
#include <utility>

#include "kernels/elementwise/program.h"

namespace mg::elementwise {
namespace {

struct Entry {
  const char* op_name;
  const char* program;
  bool stretches;  // inputs broadcast to the output; else all have its shape
};

constexpr Entry kTable[] = {
    {"abs", "abs a0 -> t0", false},
    {"negative", "neg a0 -> t0", false},
    {"sign", "sign a0 -> t0", false},
    {"round", "round a0 -> t0", false},
    {"rint", "rint a0 -> t0", false},
    {"ceil", "ceil a0 -> t0", false},
    {"floor", "floor a0 -> t0", false},
    {"trunc", "trunc a0 -> t0", false},
    {"fix", "trunc a0 -> t0", false},
    {"exp", "exp a0 -> t0", false},
    {"expm1", "expm1 a0 -> t0", false},
    {"log", "log a0 -> t0", false},
    {"log2", "log2 a0 -> t0", false},
    {"log10", "log10 a0 -> t0", false},
    {"log1p", "log1p a0 -> t0", false},
    {"sqrt", "sqrt a0 -> t0", false},
    {"rsqrt", "rsqrt a0 -> t0", false},
    {"square", "square a0 -> t0", false},
    {"reciprocal", "reciprocal a0 -> t0", false},
    {"tanh", "tanh a0 -> t0", false},
    {"erf", "erf a0 -> t0", false},
    {"sigmoid", "sigmoid a0 -> t0", false},
    {"relu", "relu a0 -> t0", false},
    {"softsign", "softsign a0 -> t0", false},
    {"logical_not", "not a0 -> t0", false},
    {"_contrib_isnan", "isnan a0 -> t0", false},
    {"_contrib_isinf", "isinf a0 -> t0", false},
    {"_contrib_isfinite", "isfinite a0 -> t0", false},
    {"make_loss", "copy a0 -> t0", false},
    {"_relu_grad", "relu_grad a0 a1 -> t0", false},
    {"_log_or_zero", "log_or_zero a0 -> t0", false},
    {"_reciprocal_or_zero", "reciprocal_or_zero a0 -> t0", false},
    {"degrees", "mul a0 #57.29577951308232 -> t0", false},
    {"radians", "mul a0 #0.017453292519943295 -> t0", false},
    {"clip", "max a0 #a_min; min t0 #a_max -> t1", false},
    {"_clip_grad", "ge a1 #a_min; le a1 #a_max; and t0 t1; where t2 a0 #0 -> t3", false},
    {"hard_sigmoid", "mul a0 #alpha; add t0 #beta; max t1 #0; min t2 #1 -> t3", false},
    {"where", "where a0 a1 a2 -> t0", false},

    {"elemwise_add", "add a0 a1 -> t0", false},
    {"elemwise_sub", "sub a0 a1 -> t0", false},
    {"elemwise_mul", "mul a0 a1 -> t0", false},
    {"elemwise_div", "div a0 a1 -> t0", false},
    {"broadcast_add", "add a0 a1 -> t0", true},
    {"broadcast_sub", "sub a0 a1 -> t0", true},
    {"broadcast_mul", "mul a0 a1 -> t0", true},
    {"broadcast_div", "div a0 a1 -> t0", true},
    {"broadcast_power", "pow a0 a1 -> t0", true},
    {"broadcast_maximum", "max a0 a1 -> t0", true},
    {"broadcast_minimum", "min a0 a1 -> t0", true},
    {"broadcast_equal", "eq a0 a1 -> t0", true},
    {"broadcast_not_equal", "ne a0 a1 -> t0", true},
    {"broadcast_greater", "gt a0 a1 -> t0", true},
    {"broadcast_greater_equal", "ge a0 a1 -> t0", true},
    {"broadcast_lesser", "lt a0 a1 -> t0", true},
    {"broadcast_lesser_equal", "le a0 a1 -> t0", true},
    {"broadcast_logical_and", "and a0 a1 -> t0", true},
    {"broadcast_logical_or", "or a0 a1 -> t0", true},
    {"broadcast_logical_xor", "xor a0 a1 -> t0", true},

    {"_plus_scalar", "add a0 #scalar -> t0", false},
    {"_minus_scalar", "sub a0 #scalar -> t0", false},
    {"_rminus_scalar", "sub #scalar a0 -> t0", false},
    {"_mul_scalar", "mul a0 #scalar -> t0", false},
    {"_div_scalar", "div a0 #scalar -> t0", false},
    {"_rdiv_scalar", "div #scalar a0 -> t0", false},
    {"_rpower_scalar", "pow #scalar a0 -> t0", false},
    {"_maximum_scalar", "max a0 #scalar -> t0", false},
    {"_minimum_scalar", "min a0 #scalar -> t0", false},
    {"_equal_scalar", "eq a0 #scalar -> t0", false},
    {"_not_equal_scalar", "ne a0 #scalar -> t0", false},
    {"_greater_scalar", "gt a0 #scalar -> t0", false},
    {"_greater_equal_scalar", "ge a0 #scalar -> t0", false},
    {"_lesser_scalar", "lt a0 #scalar -> t0", false},
    {"_lesser_equal_scalar", "le a0 #scalar -> t0", false},
    {"_logical_and_scalar", "and a0 #scalar -> t0", false},
    {"_logical_or_scalar", "or a0 #scalar -> t0", false},
    {"_logical_xor_scalar", "xor a0 #scalar -> t0", false},
};
constexpr size_t kCount = std::size(kTable);

std::vector<std::vector<int64_t>> shapes_of(const std::vector<Desc>& arrays) {
  std::vector<std::vector<int64_t>> shapes;
  for (const Desc& one : arrays) shapes.push_back(one.shape);
  return shapes;
}

std::unique_ptr<Step> make(const std::string& text, bool stretches, const std::vector<Desc>& in,
                           const std::vector<Desc>& out, const Attrs& attrs) {
  if (!stretches)
    for (const Desc& one : in)
      if (one.shape != out[0].shape) return nullptr;
  Program program;
  if (!parse(text, attrs, &program)) return nullptr;
  return make_step(std::move(program), in, shapes_of(in), out);
}

template <size_t place>
std::unique_ptr<Step> make_single(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                  const Attrs& attrs) {
  return make(kTable[place].program, kTable[place].stretches, in, out, attrs);
}

template <size_t... places>
bool enter_all(std::index_sequence<places...>) {
  return (enter_kernel(kTable[places].op_name, make_single<places>) && ...);
}
const bool entered = enter_all(std::make_index_sequence<kCount>());

std::unique_ptr<Step> make_activation(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                      const Attrs& attrs) {
  return make(attrs.get<std::string>("act_type", "") + " a0 -> t0", false, in, out, attrs);
}

std::unique_ptr<Step> make_leaky(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                 const Attrs& attrs) {
  const auto kind = attrs.get<std::string>("act_type", "");
  const char* text =
      kind == "leaky" ? "gt a0 #0; mul a0 #slope; where t0 a0 t1 -> t2"
      : kind == "elu" ? "min a0 #0; expm1 t0; mul t1 #slope; gt a0 #0; where t3 a0 t2 -> t4"
      : kind == "gelu"
          ? "mul a0 #0.7071067811865476; erf t0; add t1 #1; mul a0 t2; mul t3 #0.5 -> t4"
          : "";
  return in.size() == 1 ? make(text, false, in, out, attrs) : nullptr;
}

std::unique_ptr<Step> make_power(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                 const Attrs& attrs) {
  const double by = attrs.get<double>("scalar", 0);
  const char* text = by == 3   ? "square a0; mul t0 a0 -> t1"
                     : by == 4 ? "square a0; square t0 -> t1"
                               : "pow a0 #scalar -> t0";
  return make(text, false, in, out, attrs);
}

std::unique_ptr<Step> make_sum_of_all(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                      const Attrs& attrs) {
  if (in.size() == 1) return make("copy a0 -> t0", false, in, out, attrs);
  if (in.size() > 64) return nullptr;
  std::string text = "add a0 a1";
  for (size_t i = 2; i < in.size(); ++i)
    text += "; add t" + std::to_string(i - 2) + " a" + std::to_string(i);
  return make(text + " -> t" + std::to_string(in.size() - 2), false, in, out, attrs);
}

// Shapes as text: "2:64,1 5:1,20" says under which shapes inputs 2 and 5 broadcast.
bool read_views(const std::string& text, std::vector<std::vector<int64_t>>* views) {
  const char* at = text.c_str();
  char* next = nullptr;
  while (*at != '\0') {
    const long place = std::strtol(at, &next, 10);
    if (next == at || *next != ':' || place < 0 || place >= static_cast<long>(views->size()))
      return false;
    auto& shape = (*views)[static_cast<size_t>(place)];
    shape.clear();
    at = next + 1;
    while (*at != '\0' && *at != ' ') {
      shape.push_back(std::strtoll(at, &next, 10));
      if (next == at) return false;
      at = *next == ',' ? next + 1 : next;
    }
    while (*at == ' ') ++at;
  }
  return true;
}

std::unique_ptr<Step> make_fused(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                 const Attrs& attrs) {
  Program program;
  auto views = shapes_of(in);
  if (!read_views(attrs.get<std::string>("views", ""), &views)) return nullptr;
  for (size_t i = 0; i < in.size(); ++i) {
    int64_t count = 1;
    for (int64_t one : views[i]) count *= one;
    if (count != in[i].size()) return nullptr;
  }
  if (!parse(attrs.get<std::string>("program", ""), attrs, &program)) return nullptr;
  return make_step(std::move(program), in, views, out);
}

MG_KERNEL("Activation", make_activation);
MG_KERNEL("LeakyReLU", make_leaky);
MG_KERNEL("_power_scalar", make_power);
MG_KERNEL("add_n", make_sum_of_all);
MG_KERNEL("_fused", make_fused);

}  // namespace
}  // namespace mg::elementwise
