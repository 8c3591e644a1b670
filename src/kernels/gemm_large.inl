// The loops of gemm_large.cpp, for one instruction set. Included several times: no include guard.
#include "kernels/panels.inl"
#include "kernels/exchange.inl"

// What becomes of the sums of a tile.
template <class T>
struct Finish {
  bool more;      // they are added to C
  const T* bias;  // otherwise this is added, if it is there
  T alpha;

  MG_INLINE VecOf<T> operator()(VecOf<T> value, const T* at, int, int column, int count) const {
    if (alpha != T(1)) value *= all<T>(alpha);
    if (more) value += Panels<T>::get(at, count);
    else if (bias) value += Panels<T>::get(bias + column, count);
    return value;
  }
};

template <class T>
struct Large {
  using P = Panels<T>;
  using V = VecOf<T>;
  static constexpr int N = P::N, kRows = P::kRows;
  static constexpr int64_t kWidth = P::kWidth;

  // Up to kRows rows of C, all its columns; the panels follow each other in `b`.
  static void strip(int64_t rows, const T* a, int64_t a_row, int64_t a_step, const T* b, T* c,
                    int64_t c_row, int64_t columns, int64_t k, Finish<T> end) {
    int64_t j = 0;
    for (; j + kWidth <= columns; j += kWidth) {
      P::template rows_of<P::kVectors>(rows, a, a_row, a_step, b, c + j, c_row, k, end, N);
      b += k * kWidth;
      if (end.bias) end.bias += kWidth;
    }
    if (j == columns) return;
    const int vectors = static_cast<int>((columns - j + N - 1) / N);
    const int last = static_cast<int>(columns - j - (vectors - 1) * N);
    c += j;
    if (vectors == 1) P::template rows_of<1>(rows, a, a_row, a_step, b, c, c_row, k, end, last);
    else if (vectors == 2) P::template rows_of<2>(rows, a, a_row, a_step, b, c, c_row, k, end, last);
    else if constexpr (P::wide) {
      if (vectors == 3) P::template rows_of<3>(rows, a, a_row, a_step, b, c, c_row, k, end, last);
      else P::template rows_of<4>(rows, a, a_row, a_step, b, c, c_row, k, end, last);
    }
  }

  // -- bringing together --------------------------------------------------------------------------

  // Columns of B, which lies as (k, n), as panels; the last is filled up to whole vectors.
  static void pack(const T* b, int64_t row, int64_t k, int64_t columns, T* to) {
    for (int64_t j = 0; j < columns; j += kWidth) {
      const int64_t have = std::min(kWidth, columns - j), width = (have + N - 1) / N * N;
      for (int64_t p = 0; p < k; ++p, to += width) {
        const T* from = b + p * row + j;
        int64_t v = 0;
        for (; v + N <= have; v += N) store<T>(to + v, load<T>(from + v));
        if (v < have) store<T>(to + v, load_part<T>(from + v, have - v));
      }
    }
  }

  // The same of B that lies as (n, k).
  static void pack_turned(const T* b, int64_t row, int64_t k, int64_t columns, T* to) {
    for (int64_t j = 0; j < columns; j += kWidth) {
      const int64_t width = (std::min(kWidth, columns - j) + N - 1) / N * N;
      for (int64_t v = 0; v < width; v += N) {
        const int64_t have = std::min<int64_t>(N, columns - j - v);
        const T* from = b + (j + v) * row;
        for (int64_t p = 0; p < k; p += N) {
          const int64_t depth = std::min<int64_t>(N, k - p);
          V rows[N];
          if (have == N && depth == N) {
            load_turned<T>(from + p, row, rows);
          } else {
#pragma GCC unroll 16
            for (int i = 0; i < N; ++i) {
              rows[i] = i >= have ? V{} : load_part<T>(from + i * row + p, depth);
            }
            exchange<T>(rows);
          }
#pragma GCC unroll 16
          for (int i = 0; i < N; ++i) {
            if (i < depth) store<T>(to + (p + i) * width + v, rows[i]);
          }
        }
      }
      to += k * width;
    }
  }

  // Rows of A, which lies as (k, m), as blocks (k, kRows) one after the other.
  static void pack_rows(const T* a, int64_t step, int64_t k, int64_t rows, T* to) {
    for (int64_t p = 0; p < k; ++p, a += step) {
      T* at = to + p * kRows;
      int64_t i = 0;
      for (; i + kRows <= rows; i += kRows, at += k * kRows) {
        std::memcpy(at, a + i, kRows * sizeof(T));
      }
      for (int r = 0; i + r < rows; ++r) at[r] = a[i + r];
    }
  }
};

// A block of C from all of k; `memory` has room for what is brought together.
template <class T>
void block_of(const Matrices<T>& g, const T* a, const T* b, T* c, const T* bias, int64_t rows,
              int64_t columns, T* memory) {
  using P = Large<T>;
  constexpr int64_t R = P::kRows, kStrip = kStripRows / R * R;
  const int64_t pieces = (g.k + kDepth - 1) / kDepth, depth = (g.k + pieces - 1) / pieces;
  T* const left = memory + kDepth * kColumns;
  for (int64_t p = 0; p < g.k; p += depth) {
    const int64_t k = std::min(depth, g.k - p);
    const Finish<T> end = {p > 0, bias, g.alpha};
    if (g.turn_b) P::pack_turned(b + p, g.b_row, k, columns, memory);
    else P::pack(b + p * g.b_row, g.b_row, k, columns, memory);
    for (int64_t i = 0; i < rows; i += kStrip) {
      const int64_t stop = std::min(rows, i + kStrip);
      if (g.turn_a) P::pack_rows(a + p * g.a_row + i, g.a_row, k, stop - i, left);
      for (int64_t r = i; r < stop; r += R) {
        const int64_t have = std::min(R, stop - r);
        T* to = c + r * g.c_row;
        if (g.turn_a) P::strip(have, left + (r - i) * k, 1, R, memory, to, g.c_row, columns, k,
                               end);
        else P::strip(have, a + r * g.a_row + p, g.a_row, 1, memory, to, g.c_row, columns, k,
                      end);
      }
    }
  }
}
template <class T>
int64_t panel_width() {
  return Panels<T>::kWidth;
}
