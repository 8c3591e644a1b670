// What is done to the sums of a convolution right away: for the kernels of src/kernels/conv_*.cpp
// and src/onednn/conv.cpp.
#pragma once

#include <optional>

#include "kernel.h"

namespace mg {

// out = act(norm(sums + bias) + addend). The inputs of a call: data, weight, bias, gamma, beta,
// mean, variance, addend, each where it is there.
struct ConvEpilogue {
  bool bias = false, norm = false, add = false, relu = false, fix_gamma = false;
  float eps = 0.0f;

  const float* bias_of(const void* const* in) const;    // null: there is none
  const float* addend_of(const void* const* in) const;  // the same
  // What normalisation multiplies the sums of each filter with, then what it adds (and the bias).
  void normalise(const void* const* in, int64_t filters, float* scale) const;
  // The same, also for a bias alone, in `memory`; null where the sums stay as they are.
  const float* scales(const void* const* in, int64_t filters, float* memory) const;
};

// Of a call of Convolution or _conv_fused; nothing where inputs have other types or sizes.
std::optional<ConvEpilogue> read_epilogue(const std::vector<Desc>& in, const Desc& out,
                                          const Attrs& attrs, int64_t filters);

}  // namespace mg
