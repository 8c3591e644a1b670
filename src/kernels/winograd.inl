// Winograd's F(2 x 2, 3 x 3) in vectors: what pixels and weights become, the products, and the
// results. Included once for each instruction set: no include guard.
#include "kernels/panels.inl"
#include "kernels/exchange.inl"

namespace winograd {

using P = Panels<float>;
using V = VecOf<float>;
constexpr int N = P::N;

// B' d B of a tile of 4 x 4 values; its 16 elements go `plane` apart. Where `halved`, with the
// halves that belong to the weights.
template <bool halved = false>
MG_INLINE void window(const V (&d)[4][4], float* to, int64_t plane) {
  const V half = all<float>(0.5f);
  V t[4][4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    t[0][q] = d[0][q] - d[2][q];
    t[1][q] = d[1][q] + d[2][q];
    t[2][q] = d[2][q] - d[1][q];
    t[3][q] = d[1][q] - d[3][q];
    if (halved) {
      t[1][q] *= half;
      t[2][q] *= half;
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r, to += 4 * plane) {
    const V middle = t[r][1] + t[r][2], across = t[r][2] - t[r][1];
    store<float>(to, t[r][0] - t[r][2]);
    store<float>(to + plane, halved ? middle * half : middle);
    store<float>(to + 2 * plane, halved ? across * half : across);
    store<float>(to + 3 * plane, t[r][1] - t[r][3]);
  }
}

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

// N filters by N channels of weights (O, I, 3, 3). Side by side lie the filters, or
// where `aside` the channels; the others are rows `row` apart. Where `back`, kernels are turned by
// half a circle.
inline void kernels(const float* w, int64_t channels, bool aside, bool back, float* to,
                    int64_t plane, int64_t row) {
  V taps[N * 9], turned[N * 9];  // (channel, tap) of N filters; (filter, tap) of N channels
  for (int v = 0; v < 9; ++v) load_turned<float>(w + v * N, channels * 9, taps + v * N);
  if (aside) {
    for (int tap = 0; tap < 9; ++tap) {
      V square[N];
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) square[i] = taps[i * 9 + tap];
      exchange<float>(square);
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) turned[i * 9 + (back ? 8 - tap : tap)] = square[i];
    }
  }
  for (int i = 0; i < N; ++i) kernel((aside ? turned : taps) + i * 9, to + i * row, plane);
}

struct Sum {  // what becomes of the sums of a product
  bool more;
  MG_INLINE V operator()(V value, const float* at, int, int, int) const {
    return more ? value + load<float>(at) : value;
  }
};

// C (rows, width) = or += A B; B is one panel of k rows. `width` is a multiple of N.
inline void product(const Factor& a, const float* b, float* c, int64_t width, int64_t c_row,
                    bool more) {
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

// A' m A of the products of a tile, 16 vectors `plane` apart.
MG_INLINE void corners(const float* m, int64_t plane, V (&v)[2][2]) {
  V s[2][4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    V a[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) a[r] = load<float>(m + (4 * r + q) * plane);
    s[0][q] = a[0] + a[1] + a[2];
    s[1][q] = a[1] - a[2] - a[3];
  }
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) {
    v[r][0] = s[r][0] + s[r][1] + s[r][2];
    v[r][1] = s[r][1] - s[r][2] - s[r][3];
  }
}

inline int64_t width() { return P::kWidth; }
inline int64_t vector() { return N; }

}  // namespace winograd
