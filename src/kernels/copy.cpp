// Copies: _copy and what is one (identity, BlockGrad); zeros_like. Also the smallest kernels.
#include <cstring>

#include "../kernel.h"
#include "../parallel.h"

namespace mg {
namespace {

struct Copy : Step {
  explicit Copy(int64_t size) : bytes(size) {}

  bool inplace(int input, int) const override { return input == 0; }

  void run(const void* const* in, void* const* out, void*) override {
    if (in[0] == out[0]) return;
    const char* from = static_cast<const char*>(in[0]);
    char* to = static_cast<char*>(out[0]);
    parallel_for(bytes, 0.1, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    }, 4096);
  }

  int64_t bytes;
};

std::unique_ptr<Step> make_copy(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                const Attrs&) {
  if (in.size() != 1 || in[0].dtype != out[0].dtype || in[0].size() != out[0].size()) {
    return nullptr;
  }
  return std::make_unique<Copy>(in[0].bytes());
}

// All bytes the same: what zeros are in every type.
struct Zeros : Step {
  explicit Zeros(int64_t bytes) : bytes(bytes) {}

  bool inplace(int, int) const override { return true; }

  void run(const void* const*, void* const* out, void*) override {
    char* to = static_cast<char*>(out[0]);
    parallel_for(bytes, 0.05, [=](int64_t begin, int64_t end) {
      std::memset(to + begin, 0, static_cast<size_t>(end - begin));
    }, 4096);
  }

  int64_t bytes;
};

std::unique_ptr<Step> make_zeros(const std::vector<Desc>&, const std::vector<Desc>& out,
                                 const Attrs&) {
  return std::make_unique<Zeros>(out[0].bytes());
}

MG_KERNEL("zeros_like", make_zeros);
MG_KERNEL("_copy", make_copy);
MG_KERNEL("BlockGrad", make_copy);

}  // namespace
}  // namespace mg
