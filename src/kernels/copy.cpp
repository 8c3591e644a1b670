// Copies: _copy and what is one (identity, BlockGrad). Also the smallest example of a kernel.
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

MG_KERNEL("_copy", make_copy);
MG_KERNEL("BlockGrad", make_copy);

}  // namespace
}  // namespace mg
