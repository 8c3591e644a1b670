// Convolution of images in blocks of sixteen samples, (N / 16, C, H, W, 16): what its kernels share.
#pragma once

#include <memory>

#include "../kernel.h"

namespace mg {

constexpr int kBlock = 16;

enum class ConvKind { forward, grad_data, grad_weight };

// x (B, C, H, W, 16), w (F, C, KH, KW, 1), y (B, F, OH, OW, 16). Where it is pooled (`_conv_pool` and
// its gradients), what is written or read of y are the maxima of windows of 2 x 2 and their places.
struct BlockedProblem {
  ConvKind kind;
  Desc x, w, y;
  int64_t step, pad_y, pad_x;
  bool biased, relu, pooled;
};

// The Step that computes with values at points (conv_points.cpp), or nullptr where direct sums
// are as good.
std::unique_ptr<Step> conv_by_points(const BlockedProblem& problem);

}  // namespace mg
