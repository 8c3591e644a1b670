// BatchNorm on (outer, channels, inner) data: inner > 1 is NCHW, inner == 1 NHWC. Included once for
// each instruction set. Sums over some hundred elements are added up in double.

#include "kernels/vec.inl"

template <class T>
struct Normal {
  using V = VecOf<T>;
  static constexpr int N = lanes<T>;
  static constexpr int64_t kBlock = 4096;  // elements, or rows, summed before double takes over
  static constexpr int64_t kRows = 128;

  // Sum of (x - shift) and of its square; or, with `grads`, of dy and of dy (x - shift).
  template <bool grads>
  static void run_sums(const T* x, const T* dy, T shift, int64_t n, double* first,
                       double* second) {
    const V middle = all<T>(shift);
    for (int64_t from = 0; from < n; from += kBlock) {
      const int64_t end = std::min(n, from + kBlock);
      V a[2] = {}, b[2] = {};
      int64_t i = from;
      for (; i + 2 * N <= end; i += 2 * N)
        for (int k = 0; k < 2; ++k) {
          V d = load<T>(x + i + k * N) - middle;
          V g = grads ? load<T>(dy + i + k * N) : d;
          a[k] += g;
          b[k] += g * d;
        }
      T rest_a = 0, rest_b = 0;
      for (; i < end; ++i) {
        T d = x[i] - shift;
        T g = grads ? dy[i] : d;
        rest_a += g;
        rest_b += g * d;
      }
      *first += static_cast<double>(sum_lanes<T>(a[0] + a[1]) + rest_a);
      *second += static_cast<double>(sum_lanes<T>(b[0] + b[1]) + rest_b);
    }
  }

  // The same for up to 64 channels side by side, `channels` apart from row to row.
  template <bool grads>
  static void column_sums(const T* x, const T* dy, const T* shift, int64_t rows, int64_t channels,
                          int64_t width, double* first, double* second) {
    for (int64_t from = 0; from < rows; from += kRows) {
      const int64_t m = std::min(kRows, rows - from);
      for (int64_t j = 0; j < width; j += N) {
        const int64_t n = std::min<int64_t>(N, width - j);
        const V middle = part(shift + j, n);
        V a = {}, b = {};
        for (int64_t r = 0; r < m; ++r) {
          const int64_t at = (from + r) * channels + j;
          V d = part(x + at, n) - middle;
          V g = grads ? part(dy + at, n) : d;
          a += g;
          b += g * d;
        }
        for (int64_t k = 0; k < n; ++k) {
          first[j + k] += static_cast<double>(a[k]);
          second[j + k] += static_cast<double>(b[k]);
        }
      }
    }
  }
  static MG_INLINE V part(const T* p, int64_t n) {
    return n == N ? load<T>(p) : load_part<T>(p, n);
  }
  static MG_INLINE void put(T* p, V v, int64_t n) {
    if (n == N) store<T>(p, v);
    else store_part<T>(p, v, n);
  }

  template <bool grads>
  static void sums(const Layout& l, const T* x, const T* dy, const T* shift, int64_t begin,
                   int64_t end, double* first, double* second) {
    for (int64_t c = begin; c < end; ++c) first[c] = second[c] = 0;
    if (l.inner == 1) {
      for (int64_t c = begin; c < end; c += 64)
        column_sums<grads>(x + c, grads ? dy + c : nullptr, shift + c, l.outer, l.channels,
                           std::min<int64_t>(64, end - c), first + c, second + c);
      return;
    }
    for (int64_t o = 0; o < l.outer; ++o)
      for (int64_t c = begin; c < end; ++c) {
        const int64_t at = (o * l.channels + c) * l.inner;
        run_sums<grads>(x + at, grads ? dy + at : nullptr, shift[c], l.inner, first + c,
                        second + c);
      }
  }

  static void statistics(const Layout& l, const void* data, void* mean, void* var, double* work,
                         int64_t begin, int64_t end) {
    const T* x = static_cast<const T*>(data);
    T *m = static_cast<T*>(mean), *v = static_cast<T*>(var);
    // the first value of each channel is near its mean, seen from how widely it spreads
    for (int64_t c = begin; c < end; ++c) m[c] = x[c * l.inner];
    double *first = work, *second = work + l.channels;
    sums<false>(l, x, nullptr, m, begin, end, first, second);
    const double count = static_cast<double>(l.outer * l.inner);
    for (int64_t c = begin; c < end; ++c) {
      const double away = first[c] / count;
      const double spread = second[c] / count - away * away;
      v[c] = static_cast<T>(spread > 0 || spread != spread ? spread : 0.0);
      m[c] = static_cast<T>(static_cast<double>(m[c]) + away);
    }
  }

  // y = (x - mean) scale + shift, for rows [begin, end) of outer * channels (or of outer).
  static void apply(const Layout& l, const void* data, const void* mean, const void* scale,
                    const void* shift, void* out, int64_t begin, int64_t end) {
    const T *x = static_cast<const T*>(data), *m = static_cast<const T*>(mean);
    const T *s = static_cast<const T*>(scale), *b = static_cast<const T*>(shift);
    T* y = static_cast<T*>(out);
    if (l.inner == 1) {
      for (int64_t o = begin; o < end; ++o)
        for (int64_t j = 0; j < l.channels; j += N) {
          const int64_t n = std::min<int64_t>(N, l.channels - j), at = o * l.channels + j;
          put(y + at, (part(x + at, n) - part(m + j, n)) * part(s + j, n) + part(b + j, n), n);
        }
      return;
    }
    for (int64_t r = begin; r < end; ++r) {
      const int64_t c = r % l.channels, at = r * l.inner;
      const V mv = all<T>(m[c]), sv = all<T>(s[c]), bv = all<T>(b[c]);
      int64_t i = 0;
      for (; i + N <= l.inner; i += N)
        store<T>(y + at + i, (load<T>(x + at + i) - mv) * sv + bv);
      for (; i < l.inner; ++i) y[at + i] = (x[at + i] - m[c]) * s[c] + b[c];
    }
  }

  static void grad_sums(const Layout& l, const void* dy, const void* data, const void* mean,
                        double* work, int64_t begin, int64_t end) {
    sums<true>(l, static_cast<const T*>(data), static_cast<const T*>(dy),
               static_cast<const T*>(mean), begin, end, work, work + l.channels);
  }

  // dx = dy a + (x - mean) b + c, each of a, b, c one number a channel.
  static void grad_apply(const Layout& l, const void* grad, const void* data, const void* mean,
                         const void* factors, void* out, int64_t begin, int64_t end) {
    const T *dy = static_cast<const T*>(grad), *x = static_cast<const T*>(data);
    const T *m = static_cast<const T*>(mean), *a = static_cast<const T*>(factors);
    const T *b = a + l.channels, *c = b + l.channels;
    T* dx = static_cast<T*>(out);
    if (l.inner == 1) {
      for (int64_t o = begin; o < end; ++o)
        for (int64_t j = 0; j < l.channels; j += N) {
          const int64_t n = std::min<int64_t>(N, l.channels - j), at = o * l.channels + j;
          V d = part(x + at, n) - part(m + j, n);
          put(dx + at, part(dy + at, n) * part(a + j, n) + (d * part(b + j, n) + part(c + j, n)),
              n);
        }
      return;
    }
    for (int64_t r = begin; r < end; ++r) {
      const int64_t k = r % l.channels, at = r * l.inner;
      const V mv = all<T>(m[k]), av = all<T>(a[k]), bv = all<T>(b[k]), cv = all<T>(c[k]);
      int64_t i = 0;
      for (; i + N <= l.inner; i += N)
        store<T>(dx + at + i,
                 load<T>(dy + at + i) * av + ((load<T>(x + at + i) - mv) * bv + cv));
      for (; i < l.inner; ++i)
        dx[at + i] = dy[at + i] * a[k] + ((x[at + i] - m[k]) * b[k] + c[k]);
    }
  }
};

template <class T>
NormalPasses normal_passes() {
  using P = Normal<T>;
  return {P::statistics, P::apply, P::grad_sums, P::grad_apply};
}
