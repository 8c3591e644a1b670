// + - * / of dense float32 arrays in one loop, for calls too short for a prepared Step.
#pragma once

#include <cstdint>

namespace mg {

enum Arithmetic { kAdd, kSub, kMul, kDiv, kReversedSub, kReversedDiv };

// out shares no memory with a and b. The reversed kinds are those of a number before an array.
void arithmetic(Arithmetic kind, const float* a, const float* b, float* out, int64_t n);
void arithmetic(Arithmetic kind, const float* a, float number, float* out, int64_t n);

}  // namespace mg
