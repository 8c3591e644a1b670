// Reading and simplifying element-wise programs.
#include "kernels/elementwise/program.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>

namespace mg::elementwise {
namespace {

struct WordInfo {
  Word word;
  int count;
};

const std::map<std::string, WordInfo>& words() {
  static const std::map<std::string, WordInfo> table = {
      {"copy", {Word::copy, 1}}, {"neg", {Word::neg, 1}}, {"abs", {Word::abs, 1}},
      {"sign", {Word::sign, 1}}, {"sqrt", {Word::sqrt, 1}}, {"rsqrt", {Word::rsqrt, 1}},
      {"square", {Word::square, 1}}, {"reciprocal", {Word::reciprocal, 1}},
      {"exp", {Word::exp, 1}}, {"expm1", {Word::expm1, 1}}, {"log", {Word::log, 1}},
      {"log2", {Word::log2, 1}}, {"log10", {Word::log10, 1}}, {"log1p", {Word::log1p, 1}},
      {"tanh", {Word::tanh, 1}}, {"sigmoid", {Word::sigmoid, 1}}, {"relu", {Word::relu, 1}},
      {"softsign", {Word::softsign, 1}}, {"softrelu", {Word::softrelu, 1}},
      {"erf", {Word::erf, 1}}, {"floor", {Word::floor, 1}}, {"ceil", {Word::ceil, 1}},
      {"trunc", {Word::trunc, 1}}, {"round", {Word::round, 1}}, {"rint", {Word::rint, 1}},
      {"not", {Word::logical_not, 1}}, {"isnan", {Word::isnan, 1}}, {"isinf", {Word::isinf, 1}},
      {"isfinite", {Word::isfinite, 1}}, {"log_or_zero", {Word::log_or_zero, 1}},
      {"reciprocal_or_zero", {Word::reciprocal_or_zero, 1}},
      {"add", {Word::add, 2}}, {"sub", {Word::sub, 2}}, {"mul", {Word::mul, 2}},
      {"div", {Word::div, 2}}, {"max", {Word::max, 2}}, {"min", {Word::min, 2}},
      {"pow", {Word::pow, 2}}, {"eq", {Word::eq, 2}}, {"ne", {Word::ne, 2}},
      {"gt", {Word::gt, 2}}, {"ge", {Word::ge, 2}}, {"lt", {Word::lt, 2}}, {"le", {Word::le, 2}},
      {"and", {Word::logical_and, 2}}, {"or", {Word::logical_or, 2}},
      {"xor", {Word::logical_xor, 2}}, {"relu_grad", {Word::relu_grad, 2}},
      {"where", {Word::where, 3}},
  };
  return table;
}

bool number(const std::string& text, const Attrs& attrs, double* value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  auto [stop, error] = std::from_chars(begin, end, *value);  // the same in every locale
  if (error == std::errc() && stop == end) return true;
  if (!attrs.has(text)) return false;
  *value = attrs.get<double>(text, std::numeric_limits<double>::quiet_NaN());
  return true;
}

bool operand(const std::string& text, const Attrs& attrs, Program* program, Operand* result) {
  if (text.size() < 2) return false;
  if (text[0] == '#') {
    double value = 0;
    if (!number(text.substr(1), attrs, &value)) return false;
    *result = {Operand::number, static_cast<int>(program->numbers.size())};
    program->numbers.push_back(value);
    return true;
  }
  int index = 0;
  auto [stop, error] = std::from_chars(text.data() + 1, text.data() + text.size(), index);
  if (error != std::errc() || stop != text.data() + text.size()) return false;
  if (text[0] == 'a') {
    *result = {Operand::input, index};
    program->inputs = std::max(program->inputs, index + 1);
    return true;
  }
  *result = {Operand::result, index};
  return text[0] == 't' && index < static_cast<int>(program->code.size());
}

bool same(const Operand& a, const Operand& b) { return a.kind == b.kind && a.index == b.index; }

std::vector<int> use_counts(const Program& program) {
  std::vector<int> uses(program.code.size());
  for (const Instruction& one : program.code)
    for (int i = 0; i < one.count; ++i)
      if (one.operands[i].kind == Operand::result) ++uses[one.operands[i].index];
  for (const Operand& one : program.outputs)
    if (one.kind == Operand::result) uses[one.index] += 1000;  // must be kept as it is
  return uses;
}

// x + c with x = a b, used only there, becomes muladd a b c; the same for differences.
void join_products(Program* program) {
  std::vector<int> uses = use_counts(*program);
  for (Instruction& one : program->code) {
    if (one.word != Word::add && one.word != Word::sub) continue;
    for (int side = 0; side < 2; ++side) {
      const Operand product = one.operands[side], other = one.operands[1 - side];
      if (product.kind != Operand::result || uses[product.index] != 1) continue;
      const Instruction& from = program->code[product.index];
      if (from.word != Word::mul || same(product, other)) continue;
      if (from.operands[0].kind == Operand::number && from.operands[1].kind == Operand::number)
        continue;
      const Word word = one.word == Word::add ? Word::muladd
                        : side == 0           ? Word::mulsub
                                              : Word::submul;
      Instruction joined{word, 3, {from.operands[0], from.operands[1], other}};
      if (joined.operands[0].kind == Operand::number)
        std::swap(joined.operands[0], joined.operands[1]);
      one = joined;
      break;
    }
  }
}

// min (max (x, low), high) with numbers for bounds, the middle used only there, becomes
// clip x low high.
void join_bounds(Program* program) {
  const std::vector<int> uses = use_counts(*program);
  for (Instruction& one : program->code) {
    if (one.word != Word::min || one.operands[0].kind != Operand::result ||
        one.operands[1].kind != Operand::number || uses[one.operands[0].index] != 1) {
      continue;
    }
    const Instruction& from = program->code[one.operands[0].index];
    if (from.word != Word::max || from.operands[0].kind == Operand::number ||
        from.operands[1].kind != Operand::number) {
      continue;
    }
    one = {Word::clip, 3, {from.operands[0], from.operands[1], one.operands[1]}};
  }
}

void soften_powers(Program* program) {
  for (Instruction& one : program->code) {
    if (one.word != Word::pow || one.operands[1].kind != Operand::number) continue;
    const double exponent = program->numbers[one.operands[1].index];
    if (exponent == 2) one = {Word::square, 1, {one.operands[0]}};
    else if (exponent == 1) one = {Word::copy, 1, {one.operands[0]}};
    else if (exponent == -1) one = {Word::reciprocal, 1, {one.operands[0]}};
  }
}

// Uses of a copy become uses of what was copied; outputs keep theirs.
void see_through_copies(Program* program) {
  for (Instruction& one : program->code)
    for (int i = 0; i < one.count; ++i) {
      Operand& at = one.operands[i];
      while (at.kind == Operand::result && program->code[at.index].word == Word::copy)
        at = program->code[at.index].operands[0];
    }
}

void drop_unused(Program* program) {
  std::vector<int> uses = use_counts(*program);
  for (int i = static_cast<int>(program->code.size()) - 1; i >= 0; --i) {
    if (uses[i] != 0) continue;
    for (int k = 0; k < program->code[i].count; ++k) {
      const Operand& at = program->code[i].operands[k];
      if (at.kind == Operand::result) --uses[at.index];
    }
  }
  std::vector<int> place(program->code.size(), -1);
  std::vector<Instruction> kept;
  auto moved = [&](Operand& at) {
    if (at.kind == Operand::result) at.index = place[at.index];
  };
  for (size_t i = 0; i < program->code.size(); ++i) {
    if (uses[i] == 0) continue;
    place[i] = static_cast<int>(kept.size());
    kept.push_back(program->code[i]);
    for (int k = 0; k < kept.back().count; ++k) moved(kept.back().operands[k]);
  }
  program->code = std::move(kept);
  for (Operand& at : program->outputs) moved(at);
}

}  // namespace

bool parse(const std::string& text, const Attrs& attrs, Program* program) {
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos) return false;
  std::istringstream lines(text.substr(0, arrow));
  std::string line, token;
  while (std::getline(lines, line, ';')) {
    std::istringstream tokens(line);
    if (!(tokens >> token)) continue;
    auto found = words().find(token);
    if (found == words().end()) return false;
    Instruction one;
    one.word = found->second.word;
    while (tokens >> token) {
      if (one.count == 3 || !operand(token, attrs, program, &one.operands[one.count])) return false;
      ++one.count;
    }
    if (one.count != found->second.count) return false;
    program->code.push_back(one);
  }
  std::istringstream results(text.substr(arrow + 2));
  while (results >> token) {
    Operand at;
    if (!operand(token, attrs, program, &at) || at.kind != Operand::result) return false;
    program->outputs.push_back(at);
  }
  return !program->outputs.empty();
}

void simplify(Program* program) {
  soften_powers(program);
  see_through_copies(program);
  join_products(program);
  join_bounds(program);
  drop_unused(program);
}

}  // namespace mg::elementwise
