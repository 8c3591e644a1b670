// The loops of conv_winograd.cpp, for one instruction set. Included several times: no include guard.
#include "kernels/winograd.inl"

namespace winograd {

// A d A' of a tile of 2 x 2 gradients.
MG_INLINE void window(const V (&d)[2][2], float* to, int64_t plane) {
  V t[4][2];
#pragma GCC unroll 2
  for (int q = 0; q < 2; ++q) {
    t[0][q] = d[0][q];
    t[1][q] = d[0][q] + d[1][q];
    t[2][q] = d[0][q] - d[1][q];
    t[3][q] = -d[1][q];
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r, to += 4 * plane) {
    store<float>(to, t[r][0]);
    store<float>(to + plane, t[r][0] + t[r][1]);
    store<float>(to + 2 * plane, t[r][0] - t[r][1]);
    store<float>(to + 3 * plane, -t[r][1]);
  }
}

// Tiles [begin, end) of S x S pixels of images (N, height, width, channels), the first of which
// begins `pad` before the image. What is outside reads `zeros`.
template <int S>
void windows(const Tiling& g, const Images& images, int64_t begin, int64_t end, int64_t c0,
             int64_t c1, const Elements& to) {
  for (int64_t t = begin; t < end; ++t) {
    const int64_t n = t / (g.down * g.across), left = t % g.across * 2 - images.pad_x;
    const int64_t top = t / g.across % g.down * 2 - images.pad_y;
    const float* from[S][S];
    for (int r = 0; r < S; ++r) {
      for (int q = 0; q < S; ++q) {
        const int64_t y = top + r, x = left + q;
        const bool inside = y >= 0 && y < images.height && x >= 0 && x < images.width;
        from[r][q] = inside ? images.at + ((n * images.height + y) * images.width + x) *
                                              images.channels
                            : images.zeros;
      }
    }
    for (int64_t c = c0; c < c1; c += to.panel) {
      const int64_t width = std::min(to.panel, c1 - c);
      float* out = to.at + (c - c0) * to.rows + (t - begin) * width;
      for (int64_t i = 0; i < width; i += N) {
        V d[S][S];
#pragma GCC unroll 4
        for (int r = 0; r < S; ++r) {
#pragma GCC unroll 4
          for (int q = 0; q < S; ++q) d[r][q] = load<float>(from[r][q] + c + i);
        }
        window(d, out + i, to.plane);
      }
    }
  }
}

// A' m A of the products of tiles [begin, end), filters [f0, f1), and what follows it.
void results(const Tiling& g, const Results& to, const Elements& m, int64_t begin, int64_t end,
             int64_t f0, int64_t f1) {
  for (int64_t t = begin; t < end; ++t) {
    const int64_t n = t / (g.down * g.across), x = t % g.across * 2, y = t / g.across % g.down * 2;
    const int64_t place = ((n * g.out_h + y) * g.out_w + x) * g.filters;
    const int64_t rows = std::min<int64_t>(2, g.out_h - y);
    const int64_t columns = std::min<int64_t>(2, g.out_w - x);
    const float* from = m.at + (t - begin) * m.panel;
    for (int64_t f = f0; f < f1; f += N, from += N) {
      V v[2][2];
      corners(from, m.plane, v);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t q = 0; q < columns; ++q) {
          const int64_t at = place + (r * g.out_w + q) * g.filters + f;
          V value = v[r][q];
          if (to.scale) {
            value = value * load<float>(to.scale + f) + load<float>(to.scale + g.filters + f);
          }
          if (to.addend) value += load<float>(to.addend + at);
          store<float>(to.at + at, to.relu ? relu_of<float>(value) : value);
        }
      }
    }
  }
}

// -- weights --------------------------------------------------------------------------------------

// G' u G: N filters by N channels of the weights' gradient from the elements of their sums, of
// which there are `parts`; channels are rows `row` apart.
void gradients(const float* u, int64_t plane, int64_t row, int64_t parts, int64_t part, float* dw,
               int64_t channels) {
  const V half = all<float>(0.5f);
  V taps[N * 9];
  for (int i = 0; i < N; ++i, u += row) {
    V s[3][4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      V a[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const float* from = u + (4 * r + q) * plane;
        a[r] = load<float>(from);
        for (int64_t p = 1; p < parts; ++p) a[r] += load<float>(from + p * part);
      }
      const V sum = (a[1] + a[2]) * half;
      s[0][q] = a[0] + sum;
      s[1][q] = (a[1] - a[2]) * half;
      s[2][q] = sum + a[3];
    }
#pragma GCC unroll 3
    for (int r = 0; r < 3; ++r) {
      const V sum = (s[r][1] + s[r][2]) * half;
      taps[i * 9 + r * 3] = s[r][0] + sum;
      taps[i * 9 + r * 3 + 1] = (s[r][1] - s[r][2]) * half;
      taps[i * 9 + r * 3 + 2] = sum + s[r][3];
    }
  }
  for (int v = 0; v < 9; ++v) {
    exchange<float>(taps + v * N);
    for (int r = 0; r < N; ++r) store<float>(dw + r * channels * 9 + v * N, taps[v * N + r]);
  }
}

}  // namespace winograd
