#include "arithmetic.h"

#include "sets.h"

namespace mg {
namespace {

#define MG_ISA_FILE "kernels/arithmetic.inl"
#include "kernels/each_set.h"

const auto pair_of = MG_PICK(pair);
const auto scalar_of = MG_PICK(scalar);

}  // namespace

void arithmetic(Arithmetic kind, const float* a, const float* b, float* out, int64_t n) {
  pair_of(kind, a, b, out, n);
}

void arithmetic(Arithmetic kind, const float* a, float number, float* out, int64_t n) {
  scalar_of(kind, a, number, out, n);
}

}  // namespace mg
