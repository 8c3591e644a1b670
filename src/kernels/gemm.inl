// The loops of gemm.cpp, for one instruction set. Included several times: no include guard.
#include "kernels/vec.inl"
#include "kernels/exchange.inl"

template <class T>
struct Tiles {
  using V = VecOf<T>;
  static constexpr int N = lanes<T>;
  // Rows by vectors of C that are kept in registers: 32 of them with AVX-512, 16 before.
  static constexpr bool wide = MG_WIDTH == 64;
  static constexpr int kVectors = wide ? 4 : 2, kRows = 6;

  // sum[r][v] of MR rows and NV vectors; PART: the last vector has `last` elements.
  template <int MR, int NV, bool PART>
  static MG_INLINE void tile(const Matrices<T>& g, const T* a, const T* b, int64_t b_step, T* c,
                             const T* bias, int64_t k, bool more, int last) {
    V sum[MR][NV];
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) sum[r][v] = V{};
    for (int64_t p = 0; p < k; ++p) {
      V row[NV];
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v)
        row[v] = PART && v == NV - 1 ? load_part<T>(b + v * N, last) : load<T>(b + v * N);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
        const V one = all<T>(a[r * g.a_row]);
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) sum[r][v] += one * row[v];
      }
      a += g.a_step;
      b += b_step;
    }
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) {
        T* at = c + r * g.c_row + v * N;
        const bool part = PART && v == NV - 1;
        V value = sum[r][v];
        if (g.alpha != T(1)) value *= all<T>(g.alpha);
        if (more) value += part ? load_part<T>(at, last) : load<T>(at);
        else if (bias) value += part ? load_part<T>(bias + v * N, last) : load<T>(bias + v * N);
        if (part) store_part<T>(at, value, last);
        else store<T>(at, value);
      }
    }
  }

  // -- turning B ----------------------------------------------------------------------------------

  // `count` rows of (.., k) as the columns of a panel (k, width); missing ones become 0.
  static void turn(const T* from, int64_t row, int64_t count, int64_t k, T* to, int64_t width) {
    for (int64_t j = 0; j < width; j += N) {
      const int64_t have = std::max<int64_t>(0, std::min<int64_t>(N, count - j));
      int64_t p = 0;
      for (; have == N && p + N <= k; p += N) {
        V rows[N];
        load_turned<T>(from + j * row + p, row, rows);
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) store<T>(to + (p + i) * width + j, rows[i]);
      }
      for (; p < k; ++p) {
        for (int i = 0; i < N; ++i)
          to[p * width + j + i] = i < have ? from[(j + i) * row + p] : T(0);
      }
    }
  }

  template <int NV, bool PART>
  static MG_INLINE void strip(const Matrices<T>& g, const T* a, const T* b, int64_t b_step, T* c,
                              const T* bias, int64_t rows, int64_t k, bool more, int last) {
    // with few vectors more rows keep the arithmetic units busy
    constexpr int most = NV * 2 <= kVectors ? 2 * kRows : kRows;
    int64_t i = 0;
    auto step = [&](auto count) {
      constexpr int MR = decltype(count)::value;
      tile<MR, NV, PART>(g, a + i * g.a_row, b, b_step, c + i * g.c_row, bias, k, more, last);
      i += MR;
    };
    while (i + most <= rows) step(std::integral_constant<int, most>());
    if (i + 6 <= rows) step(std::integral_constant<int, 6>());
    if (i + 4 <= rows) step(std::integral_constant<int, 4>());
    if (i + 2 <= rows) step(std::integral_constant<int, 2>());
    if (i < rows) step(std::integral_constant<int, 1>());
  }

  template <int NV>
  static MG_INLINE void strip(const Matrices<T>& g, const T* a, const T* b, int64_t b_step, T* c,
                              const T* bias, int64_t rows, int64_t k, bool more, int last) {
    if (last == N) strip<NV, false>(g, a, b, b_step, c, bias, rows, k, more, last);
    else strip<NV, true>(g, a, b, b_step, c, bias, rows, k, more, last);
  }

  // Columns of C, at most kVectors vectors of them. A piece of B's columns is brought together
  // first (and turned where its columns are its rows), so that it lies in the first cache.
  static void block(const Matrices<T>& g, const T* a, const T* b, T* c, const T* bias,
                    int64_t rows, int64_t columns) {
    alignas(64) T piece[kDepth * kVectors * N];
    const int vectors = static_cast<int>((columns + N - 1) / N);
    const int last = static_cast<int>(columns - (vectors - 1) * N);
    const int64_t width = vectors * N;
    for (int64_t p = 0; p < g.k; p += kDepth) {
      const int64_t k = std::min(kDepth, g.k - p);
      const T* from = piece;
      int64_t step = width;
      if (g.turned) {
        turn(b + p, g.b_row, columns, k, piece, width);
      } else if (last == N && rows >= kWorthGathering) {
        for (int64_t i = 0; i < k; ++i)
          for (int v = 0; v < vectors; ++v)
            store<T>(piece + i * width + v * N, load<T>(b + (p + i) * g.b_row + v * N));
      } else {
        from = b + p * g.b_row;
        step = g.b_row;
      }
      const T* left = a + p * g.a_step;
      const bool more = p > 0;
      if (vectors == 1) strip<1>(g, left, from, step, c, bias, rows, k, more, last);
      else if (vectors == 2) strip<2>(g, left, from, step, c, bias, rows, k, more, last);
      else if constexpr (wide) {
        if (vectors == 3) strip<3>(g, left, from, step, c, bias, rows, k, more, last);
        else strip<4>(g, left, from, step, c, bias, rows, k, more, last);
      }
    }
  }

  // -- both with neighbours along k ---------------------------------------------------------------

  template <int MR, int NC>
  static MG_INLINE void dots(const Matrices<T>& g, const T* a, const T* b, T* c, const T* bias) {
    V sum[MR][NC];
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r)
#pragma GCC unroll 8
      for (int j = 0; j < NC; ++j) sum[r][j] = V{};
    int64_t p = 0;
    for (; p + N <= g.k; p += N) {
      V left[MR];
#pragma GCC unroll 8
      for (int r = 0; r < MR; ++r) left[r] = load<T>(a + r * g.a_row + p);
#pragma GCC unroll 8
      for (int j = 0; j < NC; ++j) {
        const V right = load<T>(b + j * g.b_row + p);
#pragma GCC unroll 8
        for (int r = 0; r < MR; ++r) sum[r][j] += left[r] * right;
      }
    }
    if (p < g.k) {
      const int64_t rest = g.k - p;
#pragma GCC unroll 8
      for (int j = 0; j < NC; ++j) {
        const V right = load_part<T>(b + j * g.b_row + p, rest);
#pragma GCC unroll 8
        for (int r = 0; r < MR; ++r)
          sum[r][j] += load_part<T>(a + r * g.a_row + p, rest) * right;
      }
    }
    for (int r = 0; r < MR; ++r)
      for (int j = 0; j < NC; ++j)
        c[r * g.c_row + j] = sum_lanes<T>(sum[r][j]) * g.alpha + (bias ? bias[j] : T(0));
  }

  template <int MR>
  static MG_INLINE void dot_rows(const Matrices<T>& g, const T* a, const T* b, T* c,
                                 const T* bias, int64_t columns) {
    constexpr int most = MR == 1 ? 8 : wide ? 6 : 3;
    int64_t j = 0;
    for (; j + most <= columns; j += most)
      dots<MR, most>(g, a, b + j * g.b_row, c + j, bias ? bias + j : nullptr);
    for (; j < columns; ++j) dots<MR, 1>(g, a, b + j * g.b_row, c + j, bias ? bias + j : nullptr);
  }

  static void dot_block(const Matrices<T>& g, const T* a, const T* b, T* c, const T* bias,
                        int64_t rows, int64_t columns) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4)
      dot_rows<4>(g, a + i * g.a_row, b, c + i * g.c_row, bias, columns);
    for (; i + 2 <= rows; i += 2)
      dot_rows<2>(g, a + i * g.a_row, b, c + i * g.c_row, bias, columns);
    for (; i < rows; ++i) dot_rows<1>(g, a + i * g.a_row, b, c + i * g.c_row, bias, columns);
  }
};

template <class T>
void product_block(const Matrices<T>& g, const T* a, const T* b, T* c, const T* bias, int64_t rows,
                   int64_t columns) {
  Tiles<T>::block(g, a, b, c, bias, rows, columns);
}
template <class T>
void product_dots(const Matrices<T>& g, const T* a, const T* b, T* c, const T* bias, int64_t rows,
                  int64_t columns) {
  Tiles<T>::dot_block(g, a, b, c, bias, rows, columns);
}
template <class T>
int64_t panel_width() {
  return Tiles<T>::kVectors * Tiles<T>::N;
}
