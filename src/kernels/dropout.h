// Dropout for other kernels (the layers of an RNN, attention): the loops without the Step.
#pragma once

#include "kernel.h"

namespace mg {

// Bytes of a mask for n elements: one bit each, the lowest of the first byte first.
inline int64_t mask_bytes(int64_t n) { return (n + 7) / 8; }

// Bits [begin, end) of the mask of a run: set with chance 1 - p. `begin` is a multiple of 32, `end`
// as well or the end of the mask, whose last bits are 0. `mask` is the whole mask.
void draw_mask(Seed seed, double p, int64_t begin, int64_t end, uint8_t* mask);

// y = x / (1 - p) where the bit is set, x * 0 elsewhere, for elements [begin, end); `begin` is a
// multiple of 8. y may be x.
void apply_mask(const float* x, const uint8_t* mask, float* y, int64_t begin, int64_t end, double p);
void apply_mask(const double* x, const uint8_t* mask, double* y, int64_t begin, int64_t end,
                double p);

}  // namespace mg
