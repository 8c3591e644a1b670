// LayerNorm over the last axis. Included once for each instruction set.

#include "kernels/vec.inl"

template <class T>
struct Layer {
  using V = VecOf<T>;
  static constexpr int N = lanes<T>;

  static MG_INLINE V part(const T* p, int64_t n) {
    return n == N ? load<T>(p) : load_part<T>(p, n);
  }
  static MG_INLINE void put(T* p, V v, int64_t n) {
    if (n == N) store<T>(p, v);
    else store_part<T>(p, v, n);
  }
  static MG_INLINE int64_t left(int64_t n, int64_t i) { return std::min<int64_t>(N, n - i); }

  // in: data, gamma, beta; out: result, mean, std
  static void forward(int64_t width, double eps, const void* const* in, void* const* out,
                      int64_t begin, int64_t end) {
    const T *gamma = static_cast<const T*>(in[1]), *beta = static_cast<const T*>(in[2]);
    for (int64_t r = begin; r < end; ++r) {
      const T* x = static_cast<const T*>(in[0]) + r * width;
      T* y = static_cast<T*>(out[0]) + r * width;
      V total = {};
      for (int64_t i = 0; i < width; i += N) total += part(x + i, left(width, i));
      const T mean = sum_lanes<T>(total) / static_cast<T>(width);
      const V middle = all<T>(mean);
      V squares = {};
      int64_t i = 0;
      for (; i + N <= width; i += N) {
        V d = load<T>(x + i) - middle;
        squares += d * d;
      }
      T rest = 0;
      for (; i < width; ++i) rest += (x[i] - mean) * (x[i] - mean);
      const T var = (sum_lanes<T>(squares) + rest) / static_cast<T>(width);
      const T std = std::sqrt(var + static_cast<T>(eps));
      const V by = all<T>(std);
      for (int64_t j = 0; j < width; j += N) {
        const int64_t n = left(width, j);
        put(y + j, (part(x + j, n) - middle) / by * part(gamma + j, n) + part(beta + j, n), n);
      }
      static_cast<T*>(out[1])[r] = mean;
      static_cast<T*>(out[2])[r] = std;
    }
  }

  // in: dy, data, gamma, mean, std; dx of rows [begin, end); their part of dgamma and dbeta is
  // added to `sums` (2 width).
  static void backward(int64_t width, const void* const* in, void* dx, void* sums, int64_t begin,
                       int64_t end) {
    const T* gamma = static_cast<const T*>(in[2]);
    T *to_gamma = static_cast<T*>(sums), *to_beta = to_gamma + width;
    for (int64_t r = begin; r < end; ++r) {
      const T* dy = static_cast<const T*>(in[0]) + r * width;
      const T* x = static_cast<const T*>(in[1]) + r * width;
      T* d = static_cast<T*>(dx) + r * width;
      const V mean = all<T>(static_cast<const T*>(in[3])[r]);
      const V inverse = all<T>(T(1) / static_cast<const T*>(in[4])[r]);
      V total = {}, slope = {};
      for (int64_t i = 0; i < width; i += N) {
        const int64_t n = left(width, i);
        const V y = part(dy + i, n), h = (part(x + i, n) - mean) * inverse;
        const V g = y * part(gamma + i, n);
        total += g;
        slope += g * h;
        put(to_gamma + i, part(to_gamma + i, n) + y * h, n);
        put(to_beta + i, part(to_beta + i, n) + y, n);
      }
      const V a = all<T>(sum_lanes<T>(total) / static_cast<T>(width));
      const V b = all<T>(sum_lanes<T>(slope) / static_cast<T>(width));
      for (int64_t i = 0; i < width; i += N) {
        const int64_t n = left(width, i);
        const V h = (part(x + i, n) - mean) * inverse;
        put(d + i, (part(dy + i, n) * part(gamma + i, n) - a - h * b) * inverse, n);
      }
    }
  }
};

template <class T>
LayerPasses layer_passes() {
  return {Layer<T>::forward, Layer<T>::backward};
}
