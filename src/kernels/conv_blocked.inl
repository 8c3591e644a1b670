// The loops of conv_blocked.cpp, for one instruction set. An image column is 16 samples wide:
// kParts vectors of this width. Included several times: no include guard.
#include "kernels/vec.inl"
#include "kernels/pool_two.inl"

typedef VecOf<float> Lane;
constexpr int kLanes = lanes<float>;
constexpr int kParts = kBlock / kLanes;
// Floats of dy that stay in the first cache (32 KB at least) beside the rows of data they meet.
constexpr int64_t kRowsInCache = 5120;
// Accumulators kept in registers at once: 32 vector registers with AVX-512, 16 before.
constexpr int kAccumulators = MG_WIDTH == 64 ? 25 : 10;

MG_INLINE Lane column(const float* p) { return load<float>(p); }
MG_INLINE void keep(float* p, Lane v) { store<float>(p, v); }

// FT filters at XT neighbouring outputs of one row; `row` is where the window of the first begins.
template <int FT, int XT>
MG_INLINE void outputs(const Correlation& g, const float* row, const float* weight,
                       const float* bias, float* out, int64_t ky0, int64_t ky1, int64_t kx0,
                       int64_t kx1) {
  for (int part = 0; part < kParts; ++part) {
    Lane sum[FT][XT];
    for (int f = 0; f < FT; ++f) {
      for (int x = 0; x < XT; ++x) sum[f][x] = Lane{} + (bias ? bias[f] : 0.0f);
    }
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t ky = ky0; ky < ky1; ++ky) {
        const float* from = row + (c * g.height + ky) * g.pitch * kBlock + part * kLanes;
        const float* w = weight + ((c * g.kh + ky) * g.kw) * FT;
        for (int64_t kx = kx0; kx < kx1; ++kx) {
          Lane value[XT];
          for (int x = 0; x < XT; ++x) value[x] = column(from + (kx + x * g.step) * kBlock);
          for (int f = 0; f < FT; ++f) {
            const Lane one = w[kx * FT + f] - Lane{};  // (with + the compiler adds)
            for (int x = 0; x < XT; ++x) sum[f][x] += one * value[x];
          }
        }
      }
    }
    for (int f = 0; f < FT; ++f) {
      for (int x = 0; x < XT; ++x) {
        Lane v = sum[f][x];
        if (g.relu) v = v <= 0.0f ? Lane{} : v;
        keep(out + f * g.plane + x * kBlock + part * kLanes, v);
      }
    }
  }
}

// One row of outputs of FT filters, XT at a time, then one at a time.
template <int FT, int XT>
void row_of(const Correlation& g, const float* in, const float* weight, const float* bias,
            float* out, int64_t y) {
  // Rows and columns of the window that lie in the padding add nothing: they are left out.
  const int64_t top = y * g.step - g.pad_y;
  const int64_t ky0 = std::max<int64_t>(0, -top), ky1 = std::min(g.kh, g.height - top);
  const float* row = in + top * g.pitch * kBlock;
  int64_t x = 0;
  for (; x + XT <= g.out_w; x += XT) {
    const int64_t left = x * g.step;
    const int64_t kx0 = std::max<int64_t>(0, g.pad_x - (left + (XT - 1) * g.step));
    const int64_t kx1 = std::min(g.kw, g.pitch - g.pad_x - left);
    outputs<FT, XT>(g, row + left * kBlock, weight, bias, out + x * kBlock, ky0, ky1, kx0, kx1);
  }
  for (; x < g.out_w; ++x) {
    outputs<FT, 1>(g, row + x * g.step * kBlock, weight, bias, out + x * kBlock, ky0, ky1, 0,
                   g.kw);
  }
}

// Adds the gradients of the weights of FT filters at TT neighbouring kernel columns, over the
// positions of rows y0 to y1 of one block, to `sums`: a vector for each filter and kernel column.
template <int FT, int TT>
MG_INLINE void taps(const Correlation& g, const float* image, const float* dy, float* sums,
                    int64_t ky, int64_t kx, int64_t y0, int64_t y1) {
  const int64_t taps = g.channels * g.kh * g.kw * kBlock;
  for (int part = 0; part < kParts; ++part) {
    Lane sum[FT][TT];
    for (int f = 0; f < FT; ++f) {
      for (int t = 0; t < TT; ++t) sum[f][t] = column(sums + f * taps + t * kBlock + part * kLanes);
    }
    for (int64_t y = y0; y < y1; ++y) {
      const float* from = image + ((y * g.step + ky - g.pad_y) * g.pitch + kx) * kBlock;
      const float* at = dy + y * g.out_w * kBlock + part * kLanes;
      from += part * kLanes;
      for (int64_t x = 0; x < g.out_w; ++x) {
        Lane one[FT];
        for (int f = 0; f < FT; ++f) one[f] = column(at + f * g.plane);
        for (int t = 0; t < TT; ++t) {
          const Lane value = column(from + t * kBlock);
          for (int f = 0; f < FT; ++f) sum[f][t] += one[f] * value;
        }
        at += kBlock;
        from += g.step * kBlock;
      }
    }
    for (int f = 0; f < FT; ++f) {
      for (int t = 0; t < TT; ++t) keep(sums + f * taps + t * kBlock + part * kLanes, sum[f][t]);
    }
  }
}

// All kernel columns of a row, as many at a time as FT filters leave accumulators for.
template <int FT>
MG_INLINE void tap_row(const Correlation& g, const float* image, const float* dy, float* sums,
                       int64_t ky, int64_t y0, int64_t y1) {
  constexpr int most = kAccumulators / FT > 5 ? 5 : kAccumulators / FT;
  int64_t kx = 0;
  for (; kx + most <= g.kw; kx += most) {
    taps<FT, most>(g, image, dy, sums + kx * kBlock, ky, kx, y0, y1);
  }
  for (; most > 3 && kx + 3 <= g.kw; kx += 3) {
    taps<FT, 3>(g, image, dy, sums + kx * kBlock, ky, kx, y0, y1);
  }
  for (; kx < g.kw; ++kx) taps<FT, 1>(g, image, dy, sums + kx * kBlock, ky, kx, y0, y1);
}

// The gradients of the weights of FT filters at channels c0 to c1. The rows of dy stay in
// the first cache while they meet every channel and row of the kernel, so the sums of these lie
// in memory meanwhile: 16 lanes for each weight.
template <int FT>
void weights_of(const Correlation& g, const float* in, const float* dy, float* sums, int64_t c0,
                int64_t c1) {
  const int64_t row = g.kw * kBlock;
  const int64_t fitting = std::max<int64_t>(1, kRowsInCache / (g.out_w * kBlock * FT));
  const int64_t groups = (g.out_h + fitting - 1) / fitting;
  const int64_t at_once = (g.out_h + groups - 1) / groups;  // no group much shorter than others
  const int64_t image = g.height * g.pitch * kBlock;
  for (int64_t b = 0; b < g.blocks; ++b) {
    for (int64_t top = 0; top < g.out_h; top += at_once) {
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t ky = 0; ky < g.kh; ++ky) {
          // rows whose window's row ky lies in the image
          const int64_t first = (g.pad_y - ky + g.step - 1) / g.step;
          const int64_t y0 = std::max(top, g.pad_y > ky ? first : 0);
          const int64_t y1 = std::min({top + at_once, g.out_h,
                                       (g.height - 1 + g.pad_y - ky) / g.step + 1});
          if (y0 < y1) {
            tap_row<FT>(g, in + (b * g.channels + c) * image, dy + b * g.filters * g.plane,
                        sums + (c * g.kh + ky) * row, ky, y0, y1);
          }
        }
      }
    }
  }
}

void kernel_weights(const Correlation& g, const float* in, const float* dy, float* sums,
                    int64_t c0, int64_t c1, int width) {
  switch (width) {
    case 8: return weights_of<8>(g, in, dy, sums, c0, c1);
    case 5: return weights_of<5>(g, in, dy, sums, c0, c1);
    case 4: return weights_of<4>(g, in, dy, sums, c0, c1);
    case 2: return weights_of<2>(g, in, dy, sums, c0, c1);
    default: return weights_of<1>(g, in, dy, sums, c0, c1);
  }
}

void correlate_row(const Correlation& g, const float* in, const float* weight, const float* bias,
                   float* out, int64_t y, int width) {
  constexpr bool wide = MG_WIDTH == 64;
  switch (width) {
    case 12: return row_of<12, wide ? 2 : 1>(g, in, weight, bias, out, y);
    case 10: return row_of<10, wide ? 2 : 1>(g, in, weight, bias, out, y);
    case 8: return row_of<8, wide ? 3 : 1>(g, in, weight, bias, out, y);
    case 6: return row_of<6, wide ? 4 : 2>(g, in, weight, bias, out, y);
    case 5: return row_of<5, wide ? 4 : 2>(g, in, weight, bias, out, y);
    case 4: return row_of<4, wide ? 4 : 2>(g, in, weight, bias, out, y);
    case 2: return row_of<2, wide ? 8 : 4>(g, in, weight, bias, out, y);
    default: return row_of<1, wide ? 8 : 4>(g, in, weight, bias, out, y);
  }
}

// -- pooled by two ---------------------------------------------------------------------------------

// One window's maximum of FT filters, and its place: four neighbouring outputs; `row` is where
// the windows of the kernel begin, `step` the floats from one tap's weights to the next.
template <int FT>
MG_INLINE void pooled_outputs(const Correlation& g, const float* row, const float* weight,
                              int64_t step, const float* bias, float* out, uint8_t* place) {
  const int64_t pitch = g.pitch * kBlock, plane = g.plane / 4;
  for (int part = 0; part < kParts; ++part) {
    Lane sum[FT][4];
#pragma GCC unroll 8
    for (int f = 0; f < FT; ++f)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[f][i] = Lane{} + (bias ? bias[f] : 0.0f);
    const float* w = weight;
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t ky = 0; ky < g.kh; ++ky) {
        const float* from = row + c * g.height * pitch + ky * pitch + part * kLanes;
        for (int64_t kx = 0; kx < g.kw; ++kx, from += kBlock, w += step) {
          const Lane value[4] = {column(from), column(from + kBlock), column(from + pitch),
                                 column(from + pitch + kBlock)};
#pragma GCC unroll 8
          for (int f = 0; f < FT; ++f) {
            const Lane one = w[f] - Lane{};
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) sum[f][i] += one * value[i];
          }
        }
      }
    }
    for (int f = 0; f < FT; ++f) {
      Largest best(sum[f][0]);
      for (int i = 1; i < 4; ++i) best.meet(sum[f][i], i);
      keep(out + f * plane + part * kLanes, best.value);
      put_places(place + f * plane + part * kLanes, best.place);
    }
  }
}

// One row of windows of `width` filters; no padding.
void pooled_row(const Correlation& g, const float* in, const float* weight, const float* bias,
                float* out, uint8_t* place, int64_t y, int width) {
  const float* row = in + 2 * y * g.pitch * kBlock;
  constexpr int most = MG_WIDTH == 64 ? 5 : 2;
  for (int f = 0; f < width;) {
    const int some = std::min(most, width - f);
    const auto each = [&](auto count) {
      for (int64_t x = 0; x < g.out_w / 2; ++x) {
        const int64_t at = f * g.plane / 4 + x * kBlock;
        pooled_outputs<decltype(count)::value>(g, row + 2 * x * kBlock, weight + f, width,
                                               bias ? bias + f : nullptr, out + at, place + at);
      }
    };
    switch (some) {
#if MG_WIDTH == 64
      case 5: each(std::integral_constant<int, 5>()); break;
      case 4: each(std::integral_constant<int, 4>()); break;
      case 3: each(std::integral_constant<int, 3>()); break;
#endif
      case 2: each(std::integral_constant<int, 2>()); break;
      default: each(std::integral_constant<int, 1>()); break;
    }
    f += some;
  }
}

// The gradients of COUNT rows of one filter's kernel of 5 x 5 for one channel, from the gradients of
// the maxima and their places. Each lane's four outputs have one gradient between them, so each tap
// takes one number of the four that it meets, and the products are a quarter of those of plain sums.
template <int COUNT>
MG_INLINE void pooled_taps(const Correlation& g, const float* in, const float* dy,
                           const uint8_t* place, int64_t filter, int64_t channel, int64_t first,
                           float* dw) {
  constexpr int size = kPooledKernel;
  const int64_t pitch = g.pitch * kBlock, plane = g.plane / 4;
  Lane sum[COUNT][size] = {};
  for (int part = 0; part < kParts; ++part) {
    for (int64_t b = 0; b < g.blocks; ++b) {
      const float* image = in + ((b * g.channels + channel) * g.height + first) * pitch;
      const int64_t begin = (b * g.filters + filter) * plane + part * kLanes;
      const float* grads = dy + begin;
      const uint8_t* places = place + begin;
      for (int64_t y = 0; y < g.out_h / 2; ++y, image += 2 * pitch) {
        const float* at = image + part * kLanes;
        for (int64_t x = 0; x < g.out_w / 2; ++x) {
          const MaskOf<float> where = get_places(places);
          const Lanes right = have_bit(where, 1), below = have_bit(where, 2);
          const Lane grad = column(grads);
          Lane above[size];
#pragma GCC unroll 6
          for (int ky = 0; ky <= COUNT; ++ky) {
            Lane left = column(at + ky * pitch);
#pragma GCC unroll 5
            for (int kx = 0; kx < size; ++kx) {
              const Lane next = column(at + ky * pitch + (kx + 1) * kBlock);
              const Lane here = choose(right, next, left);
              if (ky > 0) sum[ky - 1][kx] += grad * choose(below, here, above[kx]);
              above[kx] = here;
              left = next;
            }
          }
          at += 2 * kBlock, grads += kBlock, places += kBlock;
        }
      }
    }
  }
  for (int ky = 0; ky < COUNT; ++ky)
    for (int kx = 0; kx < size; ++kx) dw[(first + ky) * size + kx] = sum_lanes<float>(sum[ky][kx]);
}

void pooled_weights(const Correlation& g, const float* in, const float* dy, const uint8_t* place,
                    int64_t filter, int64_t channel, float* dw) {
  // all at once would need more than 32 registers
  pooled_taps<3>(g, in, dy, place, filter, channel, 0, dw);
  pooled_taps<2>(g, in, dy, place, filter, channel, 3, dw);
}
