// Rows into columns. Included once for each instruction set.

#include "kernels/vec.inl"
#include "kernels/exchange.inl"

// out[a * to + b] = in[b * from + a]: in squares of vectors, in narrow tiles where there are none.
template <class T>
void turn(const void* source, void* target, int64_t a_size, int64_t b_size, int64_t from,
          int64_t to) {
  const T* in = static_cast<const T*>(source);
  T* out = static_cast<T*>(target);
  auto plainly = [&](int64_t a0, int64_t a1, int64_t b0, int64_t b1) {
    for (int64_t a = a0; a < a1; ++a)
      for (int64_t b = b0; b < b1; ++b) out[a * to + b] = in[b * from + a];
  };
  if constexpr (sizeof(T) >= 4) {
    constexpr int N = lanes<T>;
    const int64_t a_whole = a_size / N * N, b_whole = b_size / N * N;
    for (int64_t b = 0; b < b_whole; b += N)
      for (int64_t a = 0; a < a_whole; a += N) {
        VecOf<T> v[N];
        load_turned<T>(in + b * from + a, from, v);
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) store<T>(out + (a + i) * to + b, v[i]);
      }
    plainly(a_whole, a_size, 0, b_whole);
    plainly(0, a_size, b_whole, b_size);
  } else {
    for (int64_t b = 0; b < b_size; b += 16) plainly(0, a_size, b, std::min(b + 16, b_size));
  }
}
