// The register machine: a program runs over tiles of about 1,024 elements, instruction by
// instruction, so that everything between its inputs and outputs stays in the first cache.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "isa.h"
#include "kernels/elementwise/passes.h"
#include "parallel.h"

namespace mg::elementwise {
namespace {

// Long tiles read memory better (18 ms for 16M of relu(a*b+c)*d-e, 23 in tiles of 4 KB), but all
// registers of a program should stay in the first caches.
constexpr int64_t kMostTileBytes = 16384, kLeastTileBytes = 4096, kCacheBytes = 49152;
constexpr int kRegisters = 24;
// Results from this size on go past the caches; with more inputs than three it does not pay.
constexpr int64_t kStreamBytes = 24 << 20;
constexpr int kStreamInputs = 3;

// How an input meets the shape of the results.
struct Access {
  enum Kind { full, single, pattern } kind = full;
  int64_t period = 0;  // of a pattern: after so many elements it begins again; 0: never
  // of a pattern: its axes from the outermost in, neighbours that behave alike joined
  std::vector<int64_t> sizes, strides;
};

// Right-aligned broadcasting of `view` to `shape`; false where it does not.
bool access_of(const std::vector<int64_t>& view, const std::vector<int64_t>& shape, Access* access) {
  if (view.size() > shape.size()) return false;
  const size_t lead = shape.size() - view.size();
  bool stretched = false;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const int64_t own = i < lead ? 1 : view[i - lead];
    if (own != 1 && own != shape[i]) return false;
    if (shape[i] == 1) continue;
    const int64_t step = own == 1 ? 0 : stride;
    stretched |= own == 1;
    stride *= own;
    const bool joins = !access->sizes.empty() &&
                       (step == 0 ? access->strides.back() == 0
                                  : access->strides.back() != 0);
    if (joins) {
      access->sizes.back() *= shape[i];
    } else {
      access->sizes.push_back(shape[i]);
      access->strides.push_back(step);
    }
  }
  access->kind = !stretched ? Access::full : stride == 1 ? Access::single : Access::pattern;
  // joined from the inside out: the stride of a joined axis is that of its innermost
  std::reverse(access->sizes.begin(), access->sizes.end());
  std::reverse(access->strides.begin(), access->strides.end());
  if (access->kind == Access::pattern && access->strides.front() == 0) {
    access->period = 1;
    for (size_t i = 1; i < access->sizes.size(); ++i) access->period *= access->sizes[i];
  }
  return true;
}

MG_CLONES void spread(float* to, int64_t n, float value) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}
MG_CLONES void spread(double* to, int64_t n, double value) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

// Elements [begin, begin + n) of the stretched input.
template <class T>
void fill(const Access& access, const T* from, T* to, int64_t begin, int64_t n) {
  const int inner = static_cast<int>(access.sizes.size()) - 1;
  int64_t at[8], rest = begin, offset = 0;
  for (int i = inner; i >= 0; --i) {
    at[i] = rest % access.sizes[i];
    rest /= access.sizes[i];
    offset += at[i] * access.strides[i];
  }
  while (n > 0) {
    const int64_t run = std::min(n, access.sizes[inner] - at[inner]);
    if (access.strides[inner] == 0) {
      spread(to, run, from[offset]);
    } else if (run < 32) {
      for (int64_t i = 0; i < run; ++i) to[i] = from[offset + i];
    } else {
      std::memcpy(to, from + offset, static_cast<size_t>(run) * sizeof(T));
    }
    to += run;
    n -= run;
    if (n == 0) break;
    offset -= at[inner] * access.strides[inner];
    at[inner] = 0;
    for (int i = inner - 1; i >= 0; --i) {
      offset += access.strides[i];
      if (++at[i] < access.sizes[i]) break;
      offset -= access.sizes[i] * access.strides[i];
      at[i] = 0;
    }
  }
}

// What a pass reads or writes: a place in the table of tile pointers.
template <class T>
struct Op {
  Pass<T> pass;
  int operands[3];
  int result;
};

template <class T>
class Machine final : public Step {
 public:
  // Places in the table: inputs, numbers, then registers, then outputs.
  bool prepare(Program program, const std::vector<std::vector<int64_t>>& views,
               const std::vector<Desc>& out, bool in_place) {
    program_ = std::move(program);
    total_ = out[0].size();
    for (const auto& view : views) {
      Access access;
      if (!access_of(view, out[0].shape, &access) || access.sizes.size() > 8) return false;
      accesses_.push_back(std::move(access));
    }
    for (double value : program_.numbers) numbers_.push_back(static_cast<T>(value));
    outputs_ = static_cast<int>(out.size());
    streamed_ = !in_place && out[0].bytes() >= kStreamBytes &&
                static_cast<int>(views.size()) <= kStreamInputs;
    stream_ = find_stream<T>();
    if (!settle_numbers() || !allot()) return false;
    int64_t bytes = kMostTileBytes;
    while (bytes > kLeastTileBytes && bytes * registers_ > kCacheBytes) bytes /= 2;
    tile_ = stride_ = bytes / static_cast<int64_t>(sizeof(T));
    fit_periods();
    cost_ = 0.15 * static_cast<double>(views.size() + out.size());
    for (const Instruction& one : program_.code) cost_ += weight(one.word);
    return true;
  }

  bool inplace(int input, int output) const override {
    if (accesses_[input].kind != Access::full) return false;
    const Operand& result = program_.outputs[output];
    for (size_t i = 0; i < program_.code.size(); ++i)
      for (int k = 0; k < program_.code[i].count; ++k) {
        const Operand& at = program_.code[i].operands[k];
        if (at.kind == Operand::input && at.index == input && static_cast<int>(i) > result.index)
          return false;
      }
    return true;
  }

  void run(const void* const* in, void* const* out, void*) override {
    parallel_for(
        total_, cost_,
        [&](int64_t begin, int64_t end) { tiles(in, out, begin, end, numbers_.data()); }, tile_);
  }

  double cost() const { return cost_; }

  void sweep(const void* const* in, void* const* out, int64_t begin, int64_t end,
             const double* numbers) const {
    T given[kPlaces];
    for (size_t i = 0; i < numbers_.size(); ++i) given[i] = static_cast<T>(numbers[i]);
    tiles(in, out, begin, end, given);
  }

 private:

  // Tiles of whole periods, where they are short: then every tile reads the same of such an input.
  void fit_periods() {
    int64_t longest = 0;
    for (const Access& one : accesses_)
      if (one.kind == Access::pattern && one.period <= tile_) longest = std::max(longest, one.period);
    const int64_t vector = 64 / static_cast<int64_t>(sizeof(T));  // tiles begin at cache lines
    const int64_t both = longest == 0 ? 1 : std::lcm(longest, vector);
    if (longest > 0) tile_ = both <= tile_ ? tile_ / both * both : tile_ / longest * longest;
    for (Access& one : accesses_)
      if (one.period == 0 || tile_ % one.period != 0) one.period = 0;
  }

  static double weight(Word word) {
    switch (word) {
      case Word::exp: case Word::expm1: case Word::log: case Word::log2: case Word::log10:
      case Word::log1p: case Word::tanh: case Word::sigmoid: case Word::log_or_zero:
        return 0.6;
      case Word::erf: case Word::softrelu: return 1.2;
      case Word::pow: return 4;
      default: return 0.06;
    }
  }

  int input_place(int i) const { return i; }
  int number_place(int i) const { return static_cast<int>(accesses_.size()) + i; }
  int register_place(int i) const { return number_place(static_cast<int>(numbers_.size())) + i; }
  int output_place(int i) const { return register_place(registers_) + i; }

  // Give every result a register or an output, and every stretched input a register.
  bool allot() {
    const int count = static_cast<int>(program_.code.size());
    std::vector<int> last(count, -1), result_register(count, -1), result_output(count, -1);
    for (int i = 0; i < count; ++i)
      for (int k = 0; k < program_.code[i].count; ++k) {
        const Operand& at = program_.code[i].operands[k];
        if (at.kind == Operand::result) last[at.index] = i;
      }
    for (int i = 0; i < outputs_; ++i) {
      const int index = program_.outputs[i].index;
      if (result_output[index] >= 0) repeats_.push_back({i, result_output[index]});
      else result_output[index] = i;
    }
    std::vector<bool> taken;
    auto take = [&] {
      for (size_t r = 0; r < taken.size(); ++r)
        if (!taken[r]) return taken[r] = true, static_cast<int>(r);
      taken.push_back(true);
      return static_cast<int>(taken.size()) - 1;
    };
    input_register_.assign(accesses_.size(), -1);
    for (size_t i = 0; i < accesses_.size(); ++i)
      if (accesses_[i].kind == Access::pattern) input_register_[i] = take();
    stream_register_.assign(outputs_, -1);
    if (streamed_)
      for (int i = 0; i < outputs_; ++i) stream_register_[i] = take();
    for (int i = 0; i < count; ++i) {
      // an operand's register is free for this result: passes read an element before they write it
      for (int k = 0; k < program_.code[i].count; ++k) {
        const Operand& at = program_.code[i].operands[k];
        if (at.kind == Operand::result && last[at.index] == i && result_register[at.index] >= 0)
          taken[result_register[at.index]] = false;
      }
      if (result_output[i] < 0) result_register[i] = take();
    }
    registers_ = static_cast<int>(taken.size());
    if (registers_ > kRegisters || output_place(outputs_) > kPlaces) return false;
    for (int i = 0; i < count; ++i) {
      const Instruction& from = program_.code[i];
      Op<T> op{};
      unsigned numbers = 0;
      for (int k = 0; k < from.count; ++k) {
        const Operand& at = from.operands[k];
        if (at.kind == Operand::number ||
            (at.kind == Operand::input && accesses_[at.index].kind == Access::single))
          numbers |= 1u << k;
        if (at.kind == Operand::number) op.operands[k] = number_place(at.index);
        else if (at.kind == Operand::input)
          op.operands[k] = input_register_[at.index] < 0 ? input_place(at.index)
                                                         : register_place(input_register_[at.index]);
        else
          op.operands[k] = result_output[at.index] < 0 ? register_place(result_register[at.index])
                                                       : output_place(result_output[at.index]);
      }
      op.pass = find_pass<T>(from.word, numbers);
      if (op.pass == nullptr) return false;
      op.result = result_output[i] < 0 ? register_place(result_register[i])
                                       : output_place(result_output[i]);
      code_.push_back(op);
    }
    return true;
  }

  static void stretch(Access& number) { number.kind = Access::pattern, number.period = 1; }

  // Passes take numbers as second or third operand, or as first of two. Elsewhere an input of one
  // element is spread out over a tile; a constant there is left to the operator's own body.
  bool settle_numbers() {
    for (const Instruction& one : program_.code) {
      auto is_number = [&](const Operand& at) {
        return at.kind == Operand::number ||
               (at.kind == Operand::input && accesses_[at.index].kind == Access::single);
      };
      const Operand& first = one.operands[0];
      if (!is_number(first) || (one.count == 2 && !is_number(one.operands[1]))) continue;
      if (one.count == 2 && first.kind == Operand::number) {
        if (one.operands[1].kind == Operand::number) return false;
        stretch(accesses_[one.operands[1].index]);
        continue;
      }
      if (first.kind == Operand::number) return false;
      stretch(accesses_[first.index]);
    }
    return true;
  }

  void tiles(const void* const* in, void* const* out, int64_t begin, int64_t end,
             const T* numbers) const {
    alignas(64) T registers[kRegisters * kLeastTileBytes / sizeof(T)];
    T* table[kPlaces];
    for (size_t i = 0; i < numbers_.size(); ++i)
      table[number_place(static_cast<int>(i))] = const_cast<T*>(numbers + i);
    for (int i = 0; i < registers_; ++i) table[register_place(i)] = registers + i * stride_;
    const int inputs = static_cast<int>(accesses_.size());
    for (int64_t p = begin; p < end; p += tile_) {
      const int64_t n = std::min(tile_, end - p);
      for (int i = 0; i < inputs; ++i) {
        const T* base = static_cast<const T*>(in[i]);
        const Access& access = accesses_[i];
        if (access.kind == Access::pattern) {
          if (p == begin || access.period == 0)
            fill(access, base, table[register_place(input_register_[i])], p, n);
        } else {
          table[i] = const_cast<T*>(access.kind == Access::full ? base + p : base);
        }
      }
      for (int i = 0; i < outputs_; ++i)
        table[output_place(i)] = streamed_ ? table[register_place(stream_register_[i])]
                                           : static_cast<T*>(out[i]) + p;
      for (const Op<T>& op : code_)
        op.pass(table[op.operands[0]], table[op.operands[1]], table[op.operands[2]],
                table[op.result], n);
      if (streamed_)
        for (int i = 0; i < outputs_; ++i)
          stream_(table[output_place(i)], static_cast<T*>(out[i]) + p, n);
      for (const auto& [to, from] : repeats_)
        std::memcpy(static_cast<T*>(out[to]) + p, static_cast<T*>(out[from]) + p,
                    static_cast<size_t>(n) * sizeof(T));
    }
  }

  static constexpr int kPlaces = 128;

  Program program_;
  int64_t total_ = 0, tile_ = 0, stride_ = 0;  // stride_: from register to register
  double cost_ = 0;
  std::vector<Access> accesses_;
  std::vector<T> numbers_;
  std::vector<int> input_register_, stream_register_;
  std::vector<std::pair<int, int>> repeats_;  // outputs that are the same value again
  std::vector<Op<T>> code_;
  int registers_ = 0, outputs_ = 0;
  bool streamed_ = false;
  Copier<T> stream_ = nullptr;
};

template <class T>
std::unique_ptr<Step> machine(Program program, const std::vector<std::vector<int64_t>>& views,
                              const std::vector<Desc>& out, bool in_place) {
  auto step = std::make_unique<Machine<T>>();
  if (!step->prepare(std::move(program), views, out, in_place)) return nullptr;
  return step;
}

template <class T>
class MachineSweep final : public Sweep {
 public:
  bool prepare(Program program, const Desc& any) {
    const auto inputs = static_cast<size_t>(program.inputs), outputs = program.outputs.size();
    return machine_.prepare(std::move(program), std::vector<std::vector<int64_t>>(inputs, any.shape),
                            std::vector<Desc>(outputs, any), true);
  }
  void run(const void* const* in, void* const* out, int64_t begin, int64_t end,
           const double* numbers) const override {
    machine_.sweep(in, out, begin, end, numbers);
  }
  double cost() const override { return machine_.cost(); }
  bool inplace(int input, int output) const override { return machine_.inplace(input, output); }

 private:
  Machine<T> machine_;
};

template <class T>
std::unique_ptr<Sweep> sweep_of(Program program, DType dtype) {
  auto made = std::make_unique<MachineSweep<T>>();
  if (!made->prepare(std::move(program), Desc{dtype, {1 << 20}})) return nullptr;
  return made;
}

}  // namespace

std::unique_ptr<Sweep> make_sweep(Program program, DType dtype) {
  simplify(&program);
  if (dtype == DType::f32) return sweep_of<float>(std::move(program), dtype);
  if (dtype == DType::f64) return sweep_of<double>(std::move(program), dtype);
  return nullptr;
}

std::unique_ptr<Step> make_step(Program program, const std::vector<Desc>& in,
                                const std::vector<std::vector<int64_t>>& views,
                                const std::vector<Desc>& out, bool in_place) {
  if (out.empty() || in.size() != views.size() || out.size() != program.outputs.size() ||
      program.inputs > static_cast<int>(in.size()))
    return nullptr;
  const DType dtype = out[0].dtype;
  for (const Desc& one : in)
    if (one.dtype != dtype) return nullptr;
  for (const Desc& one : out)
    if (one.dtype != dtype || one.shape != out[0].shape) return nullptr;
  simplify(&program);
  if (dtype == DType::f32) return machine<float>(std::move(program), views, out, in_place);
  if (dtype == DType::f64) return machine<double>(std::move(program), views, out, in_place);
  return nullptr;
}

}  // namespace mg::elementwise
