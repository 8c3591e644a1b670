// The loops of conv_points.cpp, for one instruction set. Included several times: no include guard.
#include "kernels/vec.inl"
#include "kernels/pool_two.inl"

typedef VecOf<float> Lane;
constexpr int kLanes = lanes<float>;
constexpr int kParts = kBlock / kLanes;  // vectors of one position

// -- from numbers to values of a polynomial and back, along one axis -------------------------------
//
// Four outputs y_i = sum_j w_j d_{i+j} from eight numbers d, at the points 0, +-1, +-2, +-1/2 and
// infinity: y = A' (G w . B' d), where row k of B' holds the coefficients of the product of all
// (x - point) but the k-th (Lavin and Gray, "Fast algorithms for convolutional neural networks",
// 2016, after Winograd, "Arithmetic complexity of computations", 1980).

struct OfData {  // B'
  static constexpr int from = kSpan, to = kSpan;
  static MG_INLINE void apply(const Lane* d, Lane* t) {
    t[0] = (d[0] - d[6]) + 5.25f * (d[4] - d[2]);
    t[7] = (d[7] - d[1]) + 5.25f * (d[3] - d[5]);
    pair(d[2] + d[6] - 4.25f * d[4], d[1] + d[5] - 4.25f * d[3], t + 1);
    pair(d[6] + 0.25f * d[2] - 1.25f * d[4], 0.5f * d[1] - 2.5f * d[3] + 2.0f * d[5], t + 3);
    pair(d[6] + 4.0f * d[2] - 5.0f * d[4], 2.0f * d[1] - 2.5f * d[3] + 0.5f * d[5], t + 5);
  }
  static MG_INLINE void pair(Lane even, Lane odd, Lane* t) {
    t[0] = even + odd;
    t[1] = even - odd;
  }
};

struct ToData {  // B
  static constexpr int from = kSpan, to = kSpan;
  static MG_INLINE void apply(const Lane* t, Lane* d) {
    const Lane e1 = t[1] + t[2], o1 = t[1] - t[2], e2 = t[3] + t[4], o2 = t[3] - t[4],
               e3 = t[5] + t[6], o3 = t[5] - t[6];
    d[0] = t[0];
    d[1] = o1 + 0.5f * o2 + 2.0f * o3 - t[7];
    d[2] = e1 + 0.25f * e2 + 4.0f * e3 - 5.25f * t[0];
    d[3] = 5.25f * t[7] - 4.25f * o1 - 2.5f * (o2 + o3);
    d[4] = 5.25f * t[0] - 4.25f * e1 - 1.25f * e2 - 5.0f * e3;
    d[5] = o1 + 2.0f * o2 + 0.5f * o3 - 5.25f * t[7];
    d[6] = e1 + e2 + e3 - t[0];
    d[7] = t[7];
  }
};

struct ToResult {  // A'
  static constexpr int from = kSpan, to = kTile;
  static MG_INLINE void apply(const Lane* t, Lane* y) {
    const Lane e1 = t[1] + t[2], o1 = t[1] - t[2], e2 = t[3] + t[4], o2 = t[3] - t[4],
               e3 = t[5] + t[6], o3 = t[5] - t[6];
    y[0] = t[0] + e1 + e2 + e3;
    y[1] = o1 + 2.0f * o2 + 0.5f * o3;
    y[2] = e1 + 4.0f * e2 + 0.25f * e3;
    y[3] = t[7] + o1 + 8.0f * o2 + 0.125f * o3;
  }
};

struct OfResult {  // A
  static constexpr int from = kTile, to = kSpan;
  static MG_INLINE void apply(const Lane* y, Lane* t) {
    t[0] = y[0];
    OfData::pair(y[0] + y[2], y[1] + y[3], t + 1);
    OfData::pair(y[0] + 4.0f * y[2], 2.0f * y[1] + 8.0f * y[3], t + 3);
    OfData::pair(y[0] + 0.25f * y[2], 0.5f * y[1] + 0.125f * y[3], t + 5);
    t[7] = y[3];
  }
};

struct OfKernel {  // G
  static constexpr int from = kTaps, to = kSpan;
  static MG_INLINE void apply(const Lane* w, Lane* t) {
    constexpr float one = -2.0f / 9, two = 1.0f / 90, half = 32.0f / 45;
    t[0] = w[0];
    OfData::pair(one * (w[0] + w[2] + w[4]), one * (w[1] + w[3]), t + 1);
    OfData::pair(two * (w[0] + 4.0f * w[2] + 16.0f * w[4]), two * (2.0f * w[1] + 8.0f * w[3]),
                 t + 3);
    OfData::pair(half * (w[0] + 0.25f * w[2] + 0.0625f * w[4]),
                 half * (0.5f * w[1] + 0.125f * w[3]), t + 5);
    t[7] = w[4];
  }
};

struct ToKernel {  // G'
  static constexpr int from = kSpan, to = kTaps;
  static MG_INLINE void apply(const Lane* t, Lane* w) {
    constexpr float one = -2.0f / 9, two = 1.0f / 90, half = 32.0f / 45;
    const Lane e1 = one * (t[1] + t[2]), o1 = one * (t[1] - t[2]), e2 = two * (t[3] + t[4]),
               o2 = two * (t[3] - t[4]), e3 = half * (t[5] + t[6]), o3 = half * (t[5] - t[6]);
    w[0] = t[0] + e1 + e2 + e3;
    w[1] = o1 + 2.0f * o2 + 0.5f * o3;
    w[2] = e1 + 4.0f * e2 + 0.25f * e3;
    w[3] = o1 + 8.0f * o2 + 0.125f * o3;
    w[4] = t[7] + e1 + 16.0f * e2 + 0.0625f * e3;
  }
};

// Along both axes: get(y, x) are the numbers, put(y, x, value) takes what comes of them.
template <class Axis, class Get, class Put>
MG_INLINE void both_axes(Get get, Put put) {
  Lane half[Axis::to][Axis::from];
#pragma GCC unroll 8
  for (int x = 0; x < Axis::from; ++x) {
    Lane in[Axis::from], out[Axis::to];
#pragma GCC unroll 8
    for (int y = 0; y < Axis::from; ++y) in[y] = get(y, x);
    Axis::apply(in, out);
#pragma GCC unroll 8
    for (int y = 0; y < Axis::to; ++y) half[y][x] = out[y];
  }
#pragma GCC unroll 8
  for (int y = 0; y < Axis::to; ++y) {
    Lane out[Axis::to];
    Axis::apply(half[y], out);
#pragma GCC unroll 8
    for (int x = 0; x < Axis::to; ++x) put(y, x, out[x]);
  }
}

// -- tiles of images -------------------------------------------------------------------------------

// `size` x `size` positions of a plane (height, width, 16) from (top, left) on. What lies outside
// is 0: such a tile is copied first.
template <class Axis>
MG_INLINE void read_tile(const float* plane, int64_t height, int64_t width, int64_t top,
                         int64_t left, float* to, int64_t stride) {
  constexpr int size = Axis::from;
  alignas(64) float copy[size * size * kBlock];
  const float* from = plane + (top * width + left) * kBlock;
  int64_t pitch = width * kBlock;
  if (top < 0 || left < 0 || top + size > height || left + size > width) {
    for (int64_t y = 0; y < size; ++y) {
      for (int64_t x = 0; x < size; ++x) {
        const bool inside = top + y >= 0 && top + y < height && left + x >= 0 && left + x < width;
        float* at = copy + (y * size + x) * kBlock;
        if (inside) std::memcpy(at, from + y * pitch + x * kBlock, kBlock * sizeof(float));
        else std::memset(at, 0, kBlock * sizeof(float));
      }
    }
    from = copy;
    pitch = size * kBlock;
  }
  for (int part = 0; part < kParts; ++part) {
    const float* at = from + part * kLanes;
    both_axes<Axis>([&](int y, int x) { return load<float>(at + y * pitch + x * kBlock); },
                    [&](int y, int x, Lane v) {
                      store<float>(to + (y * kSpan + x) * stride + part * kLanes, v);
                    });
  }
}

// The 4 x 4 gradients of a tile, of which 2 x 2 numbers and their places are there.
MG_INLINE void read_pooled(const float* plane, const uint8_t* place, int64_t height, int64_t width,
                           int64_t top, int64_t left, float* to, int64_t stride) {
  for (int part = 0; part < kParts; ++part) {
    Lane dy[4];
    MaskOf<float> places[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int64_t y = top + i / 2, x = left + i % 2;
      const int64_t at = (y * width + x) * kBlock + part * kLanes;
      const bool inside = y < height && x < width;
      dy[i] = inside ? load<float>(plane + at) : Lane{};
      places[i] = inside ? get_places(place + at) : MaskOf<float>{};
    }
    both_axes<OfResult>(
        [&](int y, int x) {
          const int i = y / 2 * 2 + x / 2;
          return share_of(dy[i], places[i], y % 2 * 2 + x % 2);
        },
        [&](int y, int x, Lane v) {
          store<float>(to + (y * kSpan + x) * stride + part * kLanes, v);
        });
  }
}

// The values of `count` tiles, first to first + count, of one channel, side by side.
void data_tiles(const Tiling& g, const float* plane, const uint8_t*, int64_t first, int64_t count,
                float* to, int64_t stride) {
  for (int64_t i = first; i < first + count; ++i, to += kBlock) {
    read_tile<OfData>(plane, g.height, g.width, i / g.across * kTile - g.pad_y,
                      i % g.across * kTile - g.pad_x, to, stride);
  }
}
void result_tiles(const Tiling& g, const float* plane, const uint8_t* place, int64_t first,
                  int64_t count, float* to, int64_t stride) {
  for (int64_t i = first; i < first + count; ++i, to += kBlock) {
    const int64_t top = i / g.across * kTile, left = i % g.across * kTile;
    if (g.pooled) {
      read_pooled(plane, place, g.out_h / 2, g.out_w / 2, top / 2, left / 2, to, stride);
    } else {
      read_tile<OfResult>(plane, g.out_h, g.out_w, top, left, to, stride);
    }
  }
}

// Outputs of one filter from their values.
MG_INLINE void write_tile(const Tiling& g, const Lane (*v)[kTile], int64_t top, int64_t left,
                          int64_t lane, float* plane) {
#pragma GCC unroll 4
  for (int y = 0; y < kTile; ++y) {
#pragma GCC unroll 4
    for (int x = 0; x < kTile; ++x) {
      if (top + y < g.out_h && left + x < g.out_w) {
        store<float>(plane + ((top + y) * g.out_w + left + x) * kBlock + lane,
                     g.relu ? relu_of<float>(v[y][x]) : v[y][x]);
      }
    }
  }
}
MG_INLINE void write_pooled(const Tiling& g, const Lane (*v)[kTile], int64_t top, int64_t left,
                            int64_t lane, float* plane, uint8_t* place) {
#pragma GCC unroll 2
  for (int y = 0; y < kTile; y += 2) {
#pragma GCC unroll 2
    for (int x = 0; x < kTile; x += 2) {
      Largest best(v[y][x]);
      best.meet(v[y][x + 1], 1);
      best.meet(v[y + 1][x], 2);
      best.meet(v[y + 1][x + 1], 3);
      if (top + y < g.out_h && left + x < g.out_w) {
        const int64_t at = ((top + y) / 2 * (g.out_w / 2) + (left + x) / 2) * kBlock + lane;
        store<float>(plane + at, best.value);
        put_places(place + at, best.place);
      }
    }
  }
}
void write_results(const Tiling& g, const float* from, int64_t stride, float bias, float* plane,
                   uint8_t* place, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i, from += kBlock) {
    const int64_t top = i / g.across * kTile, left = i % g.across * kTile;
    for (int part = 0; part < kParts; ++part) {
      Lane made[kTile][kTile];
      both_axes<ToResult>(
          [&](int y, int x) {
            return load<float>(from + (y * kSpan + x) * stride + part * kLanes);
          },
          [&](int y, int x, Lane v) { made[y][x] = v + bias; });
      if (g.pooled) write_pooled(g, made, top, left, part * kLanes, plane, place);
      else write_tile(g, made, top, left, part * kLanes, plane);
    }
  }
}
// Adds the gradients of one channel's data, from their values, where tiles overlap.
void add_data(const Tiling& g, const float* from, int64_t stride, float* plane, int64_t first,
              int64_t count) {
  for (int64_t i = first; i < first + count; ++i, from += kBlock) {
    const int64_t top = i / g.across * kTile - g.pad_y, left = i % g.across * kTile - g.pad_x;
    for (int part = 0; part < kParts; ++part) {
      float* at = plane + (top * g.width + left) * kBlock + part * kLanes;
      both_axes<ToData>(
          [&](int y, int x) {
            return load<float>(from + (y * kSpan + x) * stride + part * kLanes);
          },
          [&](int y, int x, Lane v) {
            if (top + y < 0 || top + y >= g.height || left + x < 0 || left + x >= g.width) return;
            float* to = at + (y * g.width + x) * kBlock;
            store<float>(to, load<float>(to) + v);
          });
    }
  }
}

// -- kernels ---------------------------------------------------------------------------------------

// The values of `count` kernels, `step` floats from one to the next: rows of `stride` floats.
void kernel_values(const float* from, int64_t step, int64_t count, float* to, int64_t stride) {
  for (int64_t first = 0; first < count; first += kLanes) {
    alignas(64) float taps[kTaps * kTaps * kLanes] = {};
    const int64_t have = std::min<int64_t>(kLanes, count - first);
    for (int64_t i = 0; i < have; ++i) {
      const float* kernel = from + (first + i) * step;
      for (int tap = 0; tap < kTaps * kTaps; ++tap) taps[tap * kLanes + i] = kernel[tap];
    }
    both_axes<OfKernel>([&](int y, int x) { return load<float>(taps + (y * kTaps + x) * kLanes); },
                        [&](int y, int x, Lane v) {
                          store<float>(to + (y * kSpan + x) * stride + first, v);
                        });
  }
}

// kFilters x (lanes / kFilters) gradients of kernels, from their values: a vector for each point,
// `stride` floats from one to the next. dw is (F, C, 5, 5).
void write_kernels(const float* from, int64_t stride, float* dw, int64_t channels, int64_t f0,
                   int64_t f1, int64_t c0, int64_t c1) {
  constexpr int across = kLanes / kFilters;
  alignas(64) float taps[kTaps * kTaps * kLanes];
  both_axes<ToKernel>(
      [&](int y, int x) { return load<float>(from + (y * kSpan + x) * stride); },
      [&](int y, int x, Lane v) { store<float>(taps + (y * kTaps + x) * kLanes, v); });
  for (int64_t f = f0; f < f1; ++f) {
    for (int64_t c = c0; c < c1; ++c) {
      float* to = dw + (f * channels + c) * kTaps * kTaps;
      const float* lane = taps + (f - f0) * across + (c - c0);
      for (int tap = 0; tap < kTaps * kTaps; ++tap) to[tap] = lane[tap * kLanes];
    }
  }
}

// -- products at one point -------------------------------------------------------------------------

// c[r][v] = sum over k of a[k][r] b[k][v], R rows and NV vectors.
template <int R, int NV>
MG_INLINE void tile(const float* a, int64_t a_step, const float* b, int64_t b_step, float* c,
                    int64_t c_row, int64_t k) {
  Lane sum[R][NV];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sum[r][v] = Lane{};
  for (int64_t p = 0; p < k; ++p, a += a_step, b += b_step) {
    Lane row[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) row[v] = load<float>(b + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Lane one = all<float>(a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[r][v] += one * row[v];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) store<float>(c + r * c_row + v * kLanes, sum[r][v]);
}

// Rows in groups of nearly equal size.
template <int NV>
void rows_of(const float* a, int64_t a_step, const float* b, int64_t b_step, float* c,
             int64_t c_row, int64_t rows, int64_t k) {
  constexpr int most = MG_WIDTH < 64 || NV > 2 ? 6 : 12;
  for (int64_t groups = (rows + most - 1) / most; groups > 0; --groups) {
    const int64_t some = (rows + groups - 1) / groups;
    switch (some) {
#define MG_ROWS(R) \
  case R: tile<R, NV>(a, a_step, b, b_step, c, c_row, k); break
      MG_ROWS(1); MG_ROWS(2); MG_ROWS(3); MG_ROWS(4); MG_ROWS(5); MG_ROWS(6);
#if MG_WIDTH == 64
      MG_ROWS(7); MG_ROWS(8); MG_ROWS(9); MG_ROWS(10); MG_ROWS(11); MG_ROWS(12);
#endif
#undef MG_ROWS
    }
    a += some, c += some * c_row, rows -= some;
  }
}

// c (rows, n) = a' b, with a (k, a_step) and b (k, n); n is a multiple of 16.
void product_at_point(const float* a, int64_t a_step, const float* b, float* c, int64_t rows,
                      int64_t k, int64_t n) {
  constexpr int most = MG_WIDTH == 64 ? 4 : 2;
  for (int64_t left = n / kLanes, at = 0; left > 0;) {
    const int vectors = static_cast<int>(std::min<int64_t>(most, left));
    switch (vectors) {
      case 1: rows_of<1>(a, a_step, b + at, n, c + at, n, rows, k); break;
      case 2: rows_of<2>(a, a_step, b + at, n, c + at, n, rows, k); break;
#if MG_WIDTH == 64
      case 3: rows_of<3>(a, a_step, b + at, n, c + at, n, rows, k); break;
      case 4: rows_of<4>(a, a_step, b + at, n, c + at, n, rows, k); break;
#endif
    }
    at += vectors * kLanes, left -= vectors;
  }
}

// The sums of the lanes of vectors, a vector of them: v[0] in the end.
template <int count = kLanes>
MG_INLINE void fold(Lane* v) {
  constexpr int half = count / 2;
  MaskOf<float> low, high;
  for (int i = 0; i < kLanes; ++i) {
    const int part = i / half % 2, at = i / count * count + i % half;
    low[i] = part ? kLanes + at : at;
    high[i] = low[i] + half;
  }
#pragma GCC unroll 8
  for (int i = 0; i < half; ++i)
    v[i] = __builtin_shuffle(v[i], v[i + half], low) + __builtin_shuffle(v[i], v[i + half], high);
  if constexpr (half > 1) fold<half>(v);
}

int64_t dot_channels() { return kLanes / kFilters; }

// sums[f][c] (+)= sum over n of e[f][n] v[c][n], with `row` floats from one f or c to the next:
// for kFilters x dot_channels() pairs a vector of sums, `stride` floats from one to the next. What
// is beyond the last filter or channel repeats it.
void dots_at_point(const float* e, const float* v, int64_t filters, int64_t channels, int64_t row,
                   int64_t n, float* sums, int64_t stride, bool more) {
  constexpr int across = kLanes / kFilters;
  for (int64_t f = 0; f < filters; f += kFilters) {
    const float* left[kFilters];
    for (int64_t i = 0; i < kFilters; ++i) left[i] = e + std::min(f + i, filters - 1) * row;
    for (int64_t c = 0; c < channels; c += across, sums += stride) {
      const float* right[across];
      for (int64_t j = 0; j < across; ++j) right[j] = v + std::min(c + j, channels - 1) * row;
      Lane sum[kLanes] = {};
      for (int64_t p = 0; p < n; p += kLanes) {
        Lane one[across];
#pragma GCC unroll 4
        for (int j = 0; j < across; ++j) one[j] = load<float>(right[j] + p);
#pragma GCC unroll 4
        for (int i = 0; i < kFilters; ++i) {
          const Lane two = load<float>(left[i] + p);
#pragma GCC unroll 4
          for (int j = 0; j < across; ++j) sum[i * across + j] += two * one[j];
        }
      }
      fold(sum);
      store<float>(sums, more ? load<float>(sums) + sum[0] : sum[0]);
    }
  }
}
