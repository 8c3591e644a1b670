// The loops of conv_winograd.cpp, for one instruction set. Included several times: no include guard.
#include "kernels/panels.inl"
#include "kernels/exchange.inl"

namespace winograd {

using P = Panels<float>;
using V = VecOf<float>;
constexpr int N = P::N;
constexpr int kElements = 16;

struct Sum {  // what becomes of the sums of a product
  bool more;
  MG_INLINE V operator()(V value, const float* at, int, int, int) const {
    return more ? value + load<float>(at) : value;
  }
};

// C (rows, width) = or += A B; B is one panel of k rows. `width` is a multiple of N.
void product(const Factor& a, const float* b, float* c, int64_t width, int64_t c_row, bool more) {
  auto all_rows = [&](auto vectors) {
    constexpr int NV = decltype(vectors)::value;
    for (int64_t r = 0; r < a.rows; r += P::kRows) {
      P::rows_of<NV>(std::min<int64_t>(P::kRows, a.rows - r), a.at + r * a.row, a.row, a.step, b,
                     c + r * c_row, c_row, a.k, Sum{more}, N);
    }
  };
  const int64_t vectors = width / N;
  if (vectors == 1) all_rows(std::integral_constant<int, 1>());
  else if (vectors == 2) all_rows(std::integral_constant<int, 2>());
  else if constexpr (P::wide) {
    if (vectors == 3) all_rows(std::integral_constant<int, 3>());
    else all_rows(std::integral_constant<int, 4>());
  }
}

// -- images ---------------------------------------------------------------------------------------

// B' d B of a tile of 4 x 4 values.
MG_INLINE void window(const V (&d)[4][4], float* to, int64_t plane) {
  V t[4][4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    t[0][q] = d[0][q] - d[2][q];
    t[1][q] = d[1][q] + d[2][q];
    t[2][q] = d[2][q] - d[1][q];
    t[3][q] = d[1][q] - d[3][q];
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r, to += 4 * plane) {
    store<float>(to, t[r][0] - t[r][2]);
    store<float>(to + plane, t[r][1] + t[r][2]);
    store<float>(to + 2 * plane, t[r][2] - t[r][1]);
    store<float>(to + 3 * plane, t[r][1] - t[r][3]);
  }
}

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
    const int64_t rows = std::min<int64_t>(2, g.out_h - y), columns = std::min<int64_t>(2, g.out_w - x);
    const float* from = m.at + (t - begin) * m.panel;
    for (int64_t f = f0; f < f1; f += N, from += N) {
      V s[2][4], v[2][2];
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        V a[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) a[r] = load<float>(from + (4 * r + q) * m.plane);
        s[0][q] = a[0] + a[1] + a[2];
        s[1][q] = a[1] - a[2] - a[3];
      }
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r) {
        v[r][0] = s[r][0] + s[r][1] + s[r][2];
        v[r][1] = s[r][1] - s[r][2] - s[r][3];
      }
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

// G g G' of N weights side by side.
MG_INLINE void kernel(const V* g, float* to, int64_t plane) {
  const V half = all<float>(0.5f);
  V t[4][3];
#pragma GCC unroll 3
  for (int q = 0; q < 3; ++q) {
    const V ends = (g[q] + g[6 + q]) * half, middle = g[3 + q] * half;
    t[0][q] = g[q];
    t[1][q] = ends + middle;
    t[2][q] = ends - middle;
    t[3][q] = g[6 + q];
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r, to += 4 * plane) {
    const V ends = (t[r][0] + t[r][2]) * half, middle = t[r][1] * half;
    store<float>(to, t[r][0]);
    store<float>(to + plane, ends + middle);
    store<float>(to + 2 * plane, ends - middle);
    store<float>(to + 3 * plane, t[r][2]);
  }
}

// N filters by N channels of weights (O, I, 3, 3). Side by side lie the filters, or where `back`
// the channels, and the kernel is turned by half a circle; the others are rows `row` apart.
void kernels(const float* w, int64_t channels, bool back, float* to, int64_t plane, int64_t row) {
  V taps[N * 9], turned[N * 9];  // (channel, tap) of N filters; (filter, tap) of N channels
  for (int v = 0; v < 9; ++v) {
    for (int r = 0; r < N; ++r) taps[v * N + r] = load<float>(w + r * channels * 9 + v * N);
    exchange<float>(taps + v * N);
  }
  if (back) {
    for (int tap = 0; tap < 9; ++tap) {
      V square[N];
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) square[i] = taps[i * 9 + tap];
      exchange<float>(square);
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) turned[i * 9 + 8 - tap] = square[i];
    }
  }
  for (int i = 0; i < N; ++i) kernel((back ? turned : taps) + i * 9, to + i * row, plane);
}

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

int64_t width() { return P::kWidth; }
int64_t vector() { return N; }

}  // namespace winograd
