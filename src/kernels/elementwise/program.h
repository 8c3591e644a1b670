// The little program of a `_fused` node: element-wise instructions on values.
//
// As text: "mul a0 a1; add t0 a2; relu t1 -> t2". aN is input N, tN the result of instruction N,
// #x the number x, #name the attribute `name` (in the table of single operators). After the arrow
// stand the values that are returned. minigluon/ops/fused.py reads the same text.
#pragma once

#include <string>
#include <vector>

#include "kernel.h"

namespace mg::elementwise {

enum class Word : int {
  // one operand
  copy, neg, abs, sign, sqrt, rsqrt, square, reciprocal, exp, expm1, log, log2, log10, log1p, tanh,
  sigmoid, relu, softsign, softrelu, erf, floor, ceil, trunc, round, rint, logical_not, isnan, isinf,
  isfinite, log_or_zero, reciprocal_or_zero,
  // two
  add, sub, mul, div, max, min, pow, eq, ne, gt, ge, lt, le, logical_and, logical_or, logical_xor,
  relu_grad,
  // three
  where, muladd, mulsub, submul, clip,
  none
};

struct Operand {
  enum Kind : uint8_t { input, result, number } kind = input;
  int index = 0;      // of an input, a result, or in Program::numbers
};

struct Instruction {
  Word word = Word::none;
  int count = 0;
  Operand operands[3];
};

struct Program {
  std::vector<Instruction> code;
  std::vector<double> numbers;
  std::vector<Operand> outputs;
  int inputs = 0;
};

// Reads the text; false where it holds a word or an operand that is not known here.
bool parse(const std::string& text, const Attrs& attrs, Program* program);

// Joins a product with the sum it goes into and two bounds with each other, drops copies, and turns
// powers by small whole numbers into products.
void simplify(Program* program);

// The step that runs a program over inputs that broadcast to the shape of the outputs;
// `views` has the shapes under which the inputs broadcast; `in_place`: the results are written over
// inputs, so their memory is in the caches already.
std::unique_ptr<Step> make_step(Program program, const std::vector<Desc>& in,
                                const std::vector<std::vector<int64_t>>& views,
                                const std::vector<Desc>& out, bool in_place = false);

// A program over arrays of any size, all of one size in a run, with other numbers in each run.
class Sweep {
 public:
  virtual ~Sweep() = default;
  // Elements [begin, end). `numbers`: what stands for Program::numbers in this run.
  virtual void run(const void* const* in, void* const* out, int64_t begin, int64_t end,
                   const double* numbers) const = 0;
  virtual double cost() const = 0;  // nanoseconds an element, roughly
  // Whether this output may be written over that input.
  virtual bool inplace(int input, int output) const = 0;
};

// Results are written over inputs; nullptr where a word is not known for the type.
std::unique_ptr<Sweep> make_sweep(Program program, DType dtype);

}  // namespace mg::elementwise
