// Squares of vectors turned: rows become columns. Included after vec.inl.

// Halves are exchanged, then quarters within them, and so on.
template <class T, int half = lanes<T> / 2>
MG_INLINE void exchange(VecOf<T>* v) {
  constexpr int N = lanes<T>;
  MaskOf<T> low, high;
  for (int i = 0; i < N; ++i) {
    low[i] = (i & half) ? i - half + N : i;
    high[i] = (i & half) ? i + N : i + half;
  }
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) {
    if (i & half) continue;
    const VecOf<T> a = v[i], b = v[i + half];
    v[i] = __builtin_shuffle(a, b, low);
    v[i + half] = __builtin_shuffle(a, b, high);
  }
  if constexpr (half > 1) exchange<T, half / 2>(v);
}

// Four floats each of N rows, turned: v[i] has number i of every row. Bytes by sixteen are put
// where they belong as they are loaded, so that only numbers within these are exchanged.
MG_INLINE void load_four_turned(const float* from, int64_t row, VecOf<float>* v) {
  using V = VecOf<float>;
  constexpr int N = lanes<float>;
  MaskOf<float> low, high, left, right;  // halves of each four numbers, mixed by ones and by twos
  for (int i = 0; i < N; ++i) {
    const int base = i / 4 * 4, at = i % 4;
    low[i] = base + at / 2 + at % 2 * N;
    high[i] = low[i] + 2;
    left[i] = base + at % 2 + at / 2 * N;
    right[i] = left[i] + 2;
  }
  V four[4];
#pragma GCC unroll 4
  for (int m = 0; m < 4; ++m) {  // rows m, m + 4, ...
    [[maybe_unused]] const float* at = from + m * row;
#if MG_WIDTH > 16
    auto two = [at, row](int i) {
      return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at + i * row)),
                                  _mm_loadu_ps(at + (i + 4) * row), 1);
    };
#endif
#if MG_WIDTH == 64
    four[m] = _mm512_insertf32x8(_mm512_castps256_ps512(two(0)), two(8), 1);
#elif MG_WIDTH == 32
    four[m] = two(0);
#else
    four[m] = load<float>(at);
#endif
  }
  const V a = __builtin_shuffle(four[0], four[1], low),
          b = __builtin_shuffle(four[2], four[3], low),
          c = __builtin_shuffle(four[0], four[1], high),
          d = __builtin_shuffle(four[2], four[3], high);
  v[0] = __builtin_shuffle(a, b, left);
  v[1] = __builtin_shuffle(a, b, right);
  v[2] = __builtin_shuffle(c, d, left);
  v[3] = __builtin_shuffle(c, d, right);
}

// N numbers each of N rows, turned.
template <class T>
MG_INLINE void load_turned(const T* from, int64_t row, VecOf<T>* v) {
  constexpr int N = lanes<T>;
  if constexpr (std::is_same_v<T, float>) {
#pragma GCC unroll 4
    for (int i = 0; i < N; i += 4) load_four_turned(from + i, row, v + i);
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) v[i] = load<T>(from + i * row);
    exchange<T>(v);
  }
}
