// What a native kernel is: a factory, by operator name, that prepares one call.
//
// Shapes, element types and attributes are known when a Step is made; run() gets pointers only.
// A factory answers nullptr for a case it does not take: the next factory, and at last the
// operator's Python body, takes it. Nothing here knows Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace mg {

enum class DType : int32_t { f32, f64, f16, i32, i64, u8, i8, b8 };

constexpr int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
      return 2;
    default:
      return 1;
  }
}

// A dense array in C order, without its memory.
struct Desc {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;

  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  int64_t bytes() const { return size() * size_of(dtype); }
  int ndim() const { return static_cast<int>(shape.size()); }
};

// Complete attributes of one call, by the names of the Python record. None is absent.
class Attrs {
 public:
  using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                             std::vector<double>>;

  void set(std::string name, Value value) { values_[std::move(name)] = std::move(value); }
  bool has(const std::string& name) const { return values_.count(name) != 0; }

  // The value, or `fallback` where it is absent; an integer is taken for a double.
  template <class T>
  T get(const std::string& name, T fallback) const {
    auto it = values_.find(name);
    if (it == values_.end()) return fallback;
    if (const T* held = std::get_if<T>(&it->second)) return *held;
    if constexpr (std::is_same_v<T, double>) {
      if (const int64_t* whole = std::get_if<int64_t>(&it->second)) return static_cast<double>(*whole);
    }
    if constexpr (std::is_same_v<T, int64_t>) {
      if (const bool* flag = std::get_if<bool>(&it->second)) return *flag ? 1 : 0;
    }
    return fallback;
  }

 private:
  std::map<std::string, Value> values_;
};

// What the random numbers of one run depend on, besides their place: the key of the device's
// stream, and how many runs drew from it before.
struct Seed {
  uint64_t key = 0, run = 0;
};

// One prepared call.
struct Step {
  virtual ~Step() = default;
  // Whether run() draws random numbers, by philox.inl from `seed`, which is then set before each run.
  virtual bool draws() const { return false; }
  Seed seed;
  // Bytes of temporary memory that run() is given (64-byte aligned).
  virtual std::size_t scratch() const { return 0; }
  // Whether this output may share its memory with that input.
  virtual bool inplace(int input, int output) const {
    (void)input, (void)output;
    return false;
  }
  // Take these attributes from now on; false: that needs another Step. Worth having where numbers
  // change from call to call (a learning rate): eager calls then keep their Step.
  virtual bool adjust(const Attrs& attrs) {
    (void)attrs;
    return false;
  }
  // Compute. Called without the GIL; allocates nothing, calls no Python.
  virtual void run(const void* const* in, void* const* out, void* scratch) = 0;
};

using Factory = std::unique_ptr<Step> (*)(const std::vector<Desc>& in,
                                          const std::vector<Desc>& out, const Attrs& attrs);

// Enter a factory for an operator; those of higher priority are asked first.
bool enter_kernel(const char* op_name, Factory factory, int priority = 0);

// An input that the operator's record says it mutates (optimizer state, running statistics).
template <class T>
T* mutable_in(const void* pointer) {
  return static_cast<T*>(const_cast<void*>(pointer));
}

}  // namespace mg

#define MG_CONCAT_(a, b) a##b
#define MG_CONCAT(a, b) MG_CONCAT_(a, b)
#define MG_KERNEL(op_name, ...) \
  static const bool MG_CONCAT(mg_entered_, __COUNTER__) = ::mg::enter_kernel(op_name, __VA_ARGS__)
