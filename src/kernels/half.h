// float16 numbers and rows of them.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernel.h"

namespace mg {

struct Half {
  uint16_t bits;
};

// Rows of n numbers; conversions by the machine's instructions where it has them. To float16:
// rounded to even, nan stays nan.
void half_to_float(const Half* from, float* to, int64_t n);
void float_to_half(const float* from, Half* to, int64_t n);

// Rows of any two types, as NumPy's astype does it: null for a pair that does not exist.
using CastLoop = void (*)(const void* from, void* to, int64_t n);
CastLoop cast_loop(DType from, DType to);

}  // namespace mg
