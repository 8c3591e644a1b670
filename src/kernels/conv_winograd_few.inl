// The loops of conv_winograd_few.cpp, for one instruction set. Included several times: no include
// guard.
#include "kernels/winograd.inl"

namespace winograd_few {

using winograd::N;
using winograd::P;
using winograd::V;
constexpr int kAtOnce = P::wide ? 4 : 2;  // tiles

// The elements of N channels with `count` numbers each. `pixels` has room for a vector of channels
// for each pixel, and zeros where there is none; pixel p belongs at place[p].
void windows(const Image& g, const float* data, const int64_t* place, int64_t count, float* pixels,
             float* to) {
  for (int64_t p = 0; p < count; p += N) {
    const int have = static_cast<int>(std::min<int64_t>(N, count - p));
    V rows[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) rows[i] = P::get(data + i * count + p, have);
    exchange<float>(rows);
    for (int i = 0; i < have; ++i) store<float>(pixels + place[p + i] * N, rows[i]);
  }
  int64_t tile = 0;
  for (int64_t y = 0; y < g.down; ++y) {
    for (int64_t x = 0; x < g.across; ++x, ++tile) {
      V d[4][4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const float* row = pixels + ((2 * y + r) * g.wide() + 2 * x) * N;
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) d[r][q] = load<float>(row + q * N);
      }
      winograd::window<true>(d, to + tile * N, g.tiles * N);
    }
  }
  for (; tile < g.tiles; ++tile) {
    for (int e = 0; e < 16; ++e) store<float>(to + (e * g.tiles + tile) * N, V{});
  }
}

// Columns of G g, twice those of the formula where it halves, of N by N weights whose filters are
// `row` apart: (row of G, channel, column), each of N filters side by side.
MG_INLINE void columns(const float* weight, int64_t row, float* to) {
  constexpr int64_t kRow = 3 * N * N;
  for (int c = 0; c < N; c += 4, weight += 36) {
    V taps[36];  // of four channels
#pragma GCC unroll 9
    for (int k = 0; k < 9; ++k) load_four_turned(weight + 4 * k, row, taps + 4 * k);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i, to += 3 * N) {
#pragma GCC unroll 3
      for (int q = 0; q < 3; ++q) {
        const V *g = taps + i * 9 + q, ends = g[0] + g[6];
        store<float>(to + q * N, g[0]);
        store<float>(to + kRow + q * N, ends + g[3]);
        store<float>(to + 2 * kRow + q * N, ends - g[3]);
        store<float>(to + 3 * kRow + q * N, g[6]);
      }
    }
  }
}

// The products of a row of elements at kAtOnce tiles, to `sum` or added to it. `element`: from one
// element to the next.
MG_INLINE void products(const float* column, const float* data, int64_t element, float* sum,
                        bool more) {
  V s[4][kAtOnce] = {};
  for (int c = 0; c < N; ++c, column += 3 * N) {
    const V left = load<float>(column), middle = load<float>(column + N),
            right = load<float>(column + 2 * N), ends = left + right;
    const V u[4] = {left, ends + middle, ends - middle, right};
#pragma GCC unroll 4
    for (int e = 0; e < 4; ++e) {
#pragma GCC unroll 4
      for (int i = 0; i < kAtOnce; ++i) {
        s[e][i] += u[e] * all<float>(data[e * element + i * N + c]);
      }
    }
  }
#pragma GCC unroll 4
  for (int e = 0; e < 4; ++e) {
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) {
      float* at = sum + e * element + i * N;
      store<float>(at, more ? s[e][i] + load<float>(at) : s[e][i]);
    }
  }
}

// Sums over all channels of N filters: (element, tile, filter). `data` holds the elements of the
// image, `memory` has room for 12 N x N numbers.
void sums(const Image& g, const float* weight, const float* data, float* memory, float* to) {
  const int64_t element = g.tiles * N, row = g.channels * 9;
  for (int64_t c = 0; c < g.channels; c += N, weight += 9 * N) {
    columns(weight, row, memory);
    // The next weights are on their way meanwhile.
    const float* next = weight + (c + N < g.channels ? 9 * N : 0);
    for (int r = 0; r < 4; ++r) {
      for (int i = r * N / 4; i < (r + 1) * N / 4; ++i) {
        for (int k = 0; k < 9; ++k) __builtin_prefetch(next + i * row + k * N, 0, 2);
      }
      for (int64_t tile = 0; tile < g.tiles; tile += kAtOnce) {
        const int64_t at = 4 * r * element + tile * N;
        products(memory + 3 * r * N * N, data + at, element, to + at, c > 0);
      }
    }
    data += 16 * element;
  }
}

// What becomes of these sums, of the filters from `first` on. `rows` has room for a vector of
// filters for each position, and N more.
void results(const Image& g, const Ending& end, const float* sums, int64_t first, float* rows,
             float* out) {
  const V scale = end.scale ? load<float>(end.scale + first) : V{};
  const V shift = end.scale ? load<float>(end.scale + g.filters + first) : V{};
  for (int64_t y = 0; y < g.down; ++y) {
    for (int64_t x = 0; x < g.across; ++x, sums += N) {
      V v[2][2];
      winograd::corners(sums, g.tiles * N, v);
      for (int64_t r = 0; r < std::min<int64_t>(2, g.out_h - 2 * y); ++r) {
        for (int64_t q = 0; q < std::min<int64_t>(2, g.out_w - 2 * x); ++q) {
          store<float>(rows + ((2 * y + r) * g.out_w + 2 * x + q) * N,
                       end.scale ? v[r][q] * scale + shift : v[r][q]);
        }
      }
    }
  }
  const int64_t positions = g.out_h * g.out_w;
  for (int64_t p = 0; p < positions; p += N, rows += N * N) {
    const int count = static_cast<int>(std::min<int64_t>(N, positions - p));
    V turned[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) turned[i] = load<float>(rows + i * N);
    exchange<float>(turned);
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) {
      const int64_t place = (first + i) * positions + p;
      V value = turned[i];
      if (end.addend) value += P::get(end.addend + place, count);
      P::put(out + place, end.relu ? relu_of<float>(value) : value, count);
    }
  }
}

}  // namespace winograd_few
