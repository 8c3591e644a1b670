// Products of rows of A with panels of B that were brought together, kWidth columns each. What
// becomes of the sums says `End`. Included once for each instruction set: no include guard.
#include "kernels/vec.inl"

template <class T>
struct Panels {
  using V = VecOf<T>;
  static constexpr int N = lanes<T>;
  // Rows by vectors of C that are kept in registers: 32 of them with AVX-512, 16 before.
  static constexpr bool wide = MG_WIDTH == 64;
  static constexpr int kVectors = wide ? 4 : 2, kRows = 6;
  static constexpr int64_t kWidth = kVectors * N;

  // The first `count` of N elements, which is most often all of them.
  static MG_INLINE V get(const T* p, int count) {
    return count < N ? load_part<T>(p, count) : load<T>(p);
  }
  static MG_INLINE void put(T* p, V value, int count) {
    if (count < N) store_part<T>(p, value, count);
    else store<T>(p, value);
  }

  // MR rows and NV vectors of C; of the last vector `last` elements exist.
  template <int MR, int NV, class End>
  static MG_INLINE void tile(const T* a, int64_t a_row, int64_t a_step, const T* b, T* c,
                             int64_t c_row, int64_t k, const End& end, int last) {
    V sum[MR][NV];
#pragma GCC unroll 12
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        sum[r][v] = V{};
        __builtin_prefetch(c + r * c_row + v * N, 1);
      }
    }
    for (int64_t p = 0; p < k; ++p) {
      V row[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) row[v] = load<T>(b + v * N);
#pragma GCC unroll 12
      for (int r = 0; r < MR; ++r) {
        const V one = all<T>(a[r * a_row]);
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) sum[r][v] += one * row[v];
      }
      a += a_step;
      b += NV * N;
    }
#pragma GCC unroll 12
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        T* at = c + r * c_row + v * N;
        const int count = v == NV - 1 ? last : N;
        put(at, end(sum[r][v], at, r, v * N, count), count);
      }
    }
  }

  template <int NV, class End>
  static MG_INLINE void rows_of(int64_t rows, const T* a, int64_t a_row, int64_t a_step,
                                const T* b, T* c, int64_t c_row, int64_t k, const End& end,
                                int last) {
    switch (rows) {
      case 6: return tile<6, NV>(a, a_row, a_step, b, c, c_row, k, end, last);
      case 5: return tile<5, NV>(a, a_row, a_step, b, c, c_row, k, end, last);
      case 4: return tile<4, NV>(a, a_row, a_step, b, c, c_row, k, end, last);
      case 3: return tile<3, NV>(a, a_row, a_step, b, c, c_row, k, end, last);
      case 2: return tile<2, NV>(a, a_row, a_step, b, c, c_row, k, end, last);
      default: return tile<1, NV>(a, a_row, a_step, b, c, c_row, k, end, last);
    }
  }
};
