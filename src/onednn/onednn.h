// What the oneDNN kernels share: the engine, a prepared call, how many threads a call is worth.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dnnl.hpp>

namespace mg::onednn {

using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
using Layout = dnnl::memory::desc;

dnnl::engine& engine();

Layout plain(const Dims& dims, Tag tag);

// Primitives fix their blocking for the number of threads at hand when they are made, and must
// run with as many: so both happen within the life of one of these. Small work gets one thread.
class Threads {
 public:
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  static int for_flops(double flops);

 private:
  int before_;
};

// The attributes all our primitives share: temporary memory comes from the caller.
dnnl::primitive_attr user_scratch();

// Whether an implementation is only oneDNN's slow reference.
bool is_reference(const char* implementation);

// A Step of this class; null where oneDNN has no implementation for the case, or only a slow one.
template <class Made, class... Given>
std::unique_ptr<Made> attempt(Given&&... given) {
  try {
    auto made = std::make_unique<Made>(std::forward<Given>(given)...);
    return made->slow() ? nullptr : std::move(made);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

// A primitive and the layouts of its arguments; run() takes one pointer for each, in order.
class Call {
 public:
  struct Argument {
    int name;
    Layout layout;
  };

  Call() = default;
  Call(dnnl::primitive primitive, std::vector<Argument> arguments);
  explicit operator bool() const { return static_cast<bool>(primitive_); }

  void run(const void* const* pointers) const;

 private:
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  mutable std::vector<dnnl::memory> memories_;  // runs of one Step never overlap
};

// A copy from one layout to another.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const Layout& from, const Layout& to);
  explicit operator bool() const { return static_cast<bool>(call_); }
  void run(const void* from, void* to, void* scratch) const;
  std::size_t scratch() const { return scratch_; }

 private:
  Call call_;
  std::size_t scratch_ = 0;
};

}  // namespace mg::onednn
