// Rows of numbers from one element type to another.
#pragma once

#include "kernel.h"

namespace mg {

// A row of n numbers of one type to another, as NumPy's astype does it.
using CastLoop = void (*)(const void* from, void* to, int64_t n);
CastLoop cast_loop(DType from, DType to);

}  // namespace mg
