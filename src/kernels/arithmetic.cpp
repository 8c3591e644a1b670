#include "arithmetic.h"

#include "parallel.h"
#include "sets.h"

namespace mg {
namespace {

#define MG_ISA_FILE "kernels/arithmetic.inl"
#include "kernels/each_set.h"

const auto pair_of = MG_PICK(pair);
const auto scalar_of = MG_PICK(scalar);

// Helpers take their share of what lasts longer than handing it over.
constexpr int64_t kShared = 32768;
constexpr double kCost = 0.45;  // nanoseconds an element, from memory
constexpr int64_t kGrain = 1024;

}  // namespace

void arithmetic(Arithmetic kind, const float* a, const float* b, float* out, int64_t n) {
  if (n <= kShared) return pair_of(kind, a, b, out, n);
  parallel_for(n, kCost, [=](int64_t begin, int64_t end) {
    pair_of(kind, a + begin, b + begin, out + begin, end - begin);
  }, kGrain);
}

void arithmetic(Arithmetic kind, const float* a, float number, float* out, int64_t n) {
  if (n <= kShared) return scalar_of(kind, a, number, out, n);
  parallel_for(n, kCost, [=](int64_t begin, int64_t end) {
    scalar_of(kind, a + begin, number, out + begin, end - begin);
  }, kGrain);
}

}  // namespace mg
