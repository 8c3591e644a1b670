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
