// Casts between element types.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cast.h"
#include "kernels/sets.h"
#include "parallel.h"
#include "registry.h"

namespace mg {
namespace {

struct Half {  // float16
  uint16_t bits;
};

#define MG_ISA_FILE "kernels/cast.inl"
#include "kernels/each_set.h"

class Cast final : public Step {
 public:
  Cast(const Desc& from, const Desc& to)
      : loop_(cast_loop(from.dtype, to.dtype)), size_(from.size()), from_(size_of(from.dtype)),
        to_(size_of(to.dtype)) {}

  // Each number is read before it is written, and a larger one never lies over a smaller one.
  bool inplace(int input, int) const override { return input == 0 && from_ == to_; }

  void run(const void* const* in, void* const* out, void*) override {
    const char* from = static_cast<const char*>(in[0]);
    char* to = static_cast<char*>(out[0]);
    parallel_for(size_, 0.05 * static_cast<double>(from_ + to_), [=](int64_t begin, int64_t end) {
      loop_(from + begin * from_, to + begin * to_, end - begin);
    }, 1024);
  }

 private:
  CastLoop loop_;
  int64_t size_, from_, to_;
};

std::unique_ptr<Step> make(const std::vector<Desc>& in, const std::vector<Desc>& out,
                           const Attrs&) {
  if (in.empty() || out.size() != 1 || in[0].size() != out[0].size() ||
      in[0].dtype == out[0].dtype) {
    return nullptr;
  }
  return std::make_unique<Cast>(in[0], out[0]);
}

MG_KERNEL("Cast", make);
MG_KERNEL("_cast_like", make);
MG_KERNEL("amp_cast", make);

}  // namespace

CastLoop cast_loop(DType from, DType to) { return MG_PICK(loop_of)(from, to); }

}  // namespace mg
