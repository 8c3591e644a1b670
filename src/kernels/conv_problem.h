// What the convolutions over two axes share that read the weights as they lie, (O, I, KH, KW).
#pragma once

#include <optional>

#include "../conv_epilogue.h"

namespace mg {

// Whole cache lines.
inline int64_t aligned(int64_t floats) { return (floats + 15) / 16 * 16; }

struct ConvGeometry {
  int64_t batch, height, width, channels, filters, kh, kw, out_h, out_w;
  int64_t step_y, step_x, dilate_y, dilate_x, pad_y, pad_x;

  int64_t taps() const { return channels * kh * kw; }
  int64_t positions() const { return batch * out_h * out_w; }
  // one channel of an image with its padding
  int64_t wide() const { return width + 2 * pad_x; }
  int64_t plane() const { return wide() * (height + 2 * pad_y); }
};

struct ConvProblem {
  ConvGeometry geometry;
  ConvEpilogue after;
};

// Of a call of Convolution or _conv_fused with data (N, H, W, C) where `last`, else (N, C, H, W).
// Nothing where it is none: another layout, other types or numbers of axes, groups, shapes that do
// not fit.
std::optional<ConvProblem> read_conv(const std::vector<Desc>& in, const Desc& out,
                                     const Attrs& attrs, bool last);

}  // namespace mg
