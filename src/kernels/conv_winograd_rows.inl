// The loops of conv_winograd_rows.cpp, for one instruction set. Included several times: no include
// guard.
#include "kernels/winograd.inl"

namespace winograd_rows {

using winograd::N;
using winograd::P;
using winograd::V;
constexpr int kHalf = N / 2;  // tiles that N pixels of a row are

// Every second of 2 N numbers, from the first or second on; two vectors mixed, their ends.
struct Shuffles {
  MaskOf<float> even, odd, low, high;
};
MG_INLINE Shuffles shuffles() {
  Shuffles s;
  for (int i = 0; i < N; ++i) {
    s.even[i] = 2 * i;
    s.odd[i] = 2 * i + 1;
    s.low[i] = i % 2 * N + i / 2;
    s.high[i] = i % 2 * N + i / 2 + kHalf;
  }
  return s;
}

// The elements of all tiles of one channel's piece of an image, with its padding, at
// `plane`. Two halves make a vector, vectors a panel.
void windows(const Strip& g, const float* plane, float* to, int64_t element, int64_t panel) {
  const Shuffles s = shuffles();
  for (int64_t h = 0; h < g.halves(); h += 2) {
    const int64_t next = std::min(h + 1, g.halves() - 1);
    const float* a = plane + h / g.across * 2 * g.pitch + h % g.across * N;
    const float* b = plane + next / g.across * 2 * g.pitch + next % g.across * N;
    V d[4][4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r, a += g.pitch, b += g.pitch) {
      const V a0 = load<float>(a), b0 = load<float>(b), a2 = load<float>(a + 2),
              b2 = load<float>(b + 2);
      d[r][0] = __builtin_shuffle(a0, b0, s.even);
      d[r][1] = __builtin_shuffle(a0, b0, s.odd);
      d[r][2] = __builtin_shuffle(a2, b2, s.even);
      d[r][3] = __builtin_shuffle(a2, b2, s.odd);
    }
    const int64_t tile = h * kHalf;
    winograd::window(d, to + tile / g.width * panel + tile % g.width, element);
  }
}

// Part of a row of results of one filter.
MG_INLINE void put(const Ending& end, float* at, int64_t place, V value, float scale, float shift,
                   int count) {
  if (end.scale) value = value * all<float>(scale) + all<float>(shift);
  if (end.addend) value += P::get(end.addend + place, count);
  P::put(at + place, end.relu ? relu_of<float>(value) : value, count);
}

// Filters [f0, f1) at the tiles of one panel: `m` has a row of `row` products for each element and
// filter, elements `element` apart. `out` and the addend begin with the image's first filter.
void results(const Strip& g, const Ending& end, const float* m, int64_t element, int64_t row,
             int64_t panel, int64_t f0, int64_t f1, float* out) {
  const Shuffles s = shuffles();
  const int64_t first = panel * g.width / kHalf;
  const int64_t last = std::min(g.halves(), first + g.width / kHalf);
  for (int64_t f = f0; f < f1; ++f, m += row) {
    const float scale = end.scale ? end.scale[f] : 0.0f;
    const float shift = end.scale ? end.scale[end.filters + f] : 0.0f;
    for (int64_t h = first; h < last; h += 2) {
      V v[2][2];
      winograd::corners(m + (h - first) * kHalf, element, v);
      for (int r = 0; r < 2; ++r) {
        const V halves[2] = {__builtin_shuffle(v[r][0], v[r][1], s.low),
                             __builtin_shuffle(v[r][0], v[r][1], s.high)};
        for (int64_t i = h; i < std::min(h + 2, last); ++i) {
          const int64_t y = (g.first + i / g.across) * 2 + r, x = i % g.across * N;
          if (y >= g.out_h || x >= g.out_w) continue;
          put(end, out, (f * g.out_h + y) * g.out_w + x, halves[i - h], scale, shift,
              static_cast<int>(std::min<int64_t>(N, g.out_w - x)));
        }
      }
    }
  }
}

}  // namespace winograd_rows
