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

  // The same for `vectors` vectors of channels side by side; rows are `channels` apart. `n` < N: a
  // part of one vector.
  template <bool grads, int vectors, class C>
  static MG_INLINE void column_sums(const T* x, const T* dy, const T* shift, int64_t rows,
                                    int64_t channels, C n, double* first, double* second) {
    V middle[vectors];
    for (int k = 0; k < vectors; ++k) middle[k] = part(shift + k * N, n);
    for (int64_t from = 0; from < rows; from += kRows) {
      const int64_t end = std::min(rows, from + kRows);
      V a[vectors] = {}, b[vectors] = {};
      for (int64_t r = from; r < end; ++r)
        for (int k = 0; k < vectors; ++k) {
          V d = part(x + r * channels + k * N, n) - middle[k];
          V g = grads ? part(dy + r * channels + k * N, n) : d;
          a[k] += g;
          b[k] += g * d;
        }
      for (int k = 0; k < vectors; ++k)
        for (int64_t i = 0; i < std::min<int64_t>(n, N); ++i) {
          first[k * N + i] += static_cast<double>(a[k][i]);
          second[k * N + i] += static_cast<double>(b[k][i]);
        }
    }
  }
  using Whole = std::integral_constant<int64_t, N>;
  static MG_INLINE V part(const T* p, Whole) { return load<T>(p); }
  static MG_INLINE V part(const T* p, int64_t n) { return load_part<T>(p, n); }
  static MG_INLINE void put(T* p, V v, Whole) { store<T>(p, v); }
  static MG_INLINE void put(T* p, V v, int64_t n) { store_part<T>(p, v, n); }

  // f(first row, end, first channel, vectors, channels) over rows of channels-last data, up to four
  // vectors of channels at a time and no more rows than stay in the first cache.
  template <class F>
  static MG_INLINE void in_blocks(const Layout& l, int64_t begin, int64_t end, F&& f) {
    const int64_t bytes = l.channels * static_cast<int64_t>(sizeof(T));
    const int64_t rows = l.channels <= 4 * N ? end - begin : std::max<int64_t>(4, 8192 / bytes);
    for (int64_t from = begin; from < end; from += rows) {
      const int64_t to = std::min(end, from + rows);
      int64_t j = 0;
      for (; j + 4 * N <= l.channels; j += 4 * N)
        f(from, to, j, std::integral_constant<int, 4>(), Whole());
      for (; j + N <= l.channels; j += N)
        f(from, to, j, std::integral_constant<int, 1>(), Whole());
      if (j < l.channels) f(from, to, j, std::integral_constant<int, 1>(), l.channels - j);
    }
  }

  template <bool grads>
  static void sums(const Layout& l, const T* x, const T* dy, const T* shift, int64_t begin,
                   int64_t end, double* first, double* second) {
    for (int64_t c = begin; c < end; ++c) first[c] = second[c] = 0;
    if (l.inner == 1) {
      int64_t c = begin;
      auto go = [&](auto vectors, auto n) {
        column_sums<grads, decltype(vectors)::value>(x + c, grads ? dy + c : nullptr, shift + c,
                                                     l.outer, l.channels, n, first + c, second + c);
        c += decltype(vectors)::value * N;
      };
      while (c + 4 * N <= end) go(std::integral_constant<int, 4>(), Whole());
      while (c + N <= end) go(std::integral_constant<int, 1>(), Whole());
      if (c < end) go(std::integral_constant<int, 1>(), end - c);
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

  template <bool relu>
  static MG_INLINE V ended(V y) {
    return relu ? relu_of<T>(y) : y;
  }

  // y = (x - mean) scale + shift, or max(y, 0), for rows [begin, end) of outer * channels (or of
  // outer).
  template <bool relu>
  static void apply(const Layout& l, const void* data, const void* mean, const void* scale,
                    const void* shift, void* out, int64_t begin, int64_t end) {
    const T *x = static_cast<const T*>(data), *m = static_cast<const T*>(mean);
    const T *s = static_cast<const T*>(scale), *b = static_cast<const T*>(shift);
    T* y = static_cast<T*>(out);
    if (l.inner == 1) {
      in_blocks(l, begin, end, [&](int64_t from, int64_t to, int64_t j, auto vectors, auto n) {
        constexpr int count = decltype(vectors)::value;
        V mv[count], sv[count], bv[count];
        for (int k = 0; k < count; ++k) {
          mv[k] = part(m + j + k * N, n);
          sv[k] = part(s + j + k * N, n);
          bv[k] = part(b + j + k * N, n);
        }
        for (int64_t at = from * l.channels + j; at < to * l.channels; at += l.channels)
          for (int k = 0; k < count; ++k)
            put(y + at + k * N, ended<relu>((part(x + at + k * N, n) - mv[k]) * sv[k] + bv[k]), n);
      });
      return;
    }
    for (int64_t r = begin; r < end; ++r) {
      const int64_t c = r % l.channels, at = r * l.inner;
      const V mv = all<T>(m[c]), sv = all<T>(s[c]), bv = all<T>(b[c]);
      int64_t i = 0;
      for (; i + N <= l.inner; i += N)
        store<T>(y + at + i, ended<relu>((load<T>(x + at + i) - mv) * sv + bv));
      if (i < l.inner) {
        const int64_t n = l.inner - i;
        put(y + at + i, ended<relu>((part(x + at + i, n) - mv) * sv + bv), n);
      }
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
      in_blocks(l, begin, end, [&](int64_t from, int64_t to, int64_t j, auto vectors, auto n) {
        constexpr int count = decltype(vectors)::value;
        V mv[count], av[count], bv[count], cv[count];
        for (int k = 0; k < count; ++k) {
          mv[k] = part(m + j + k * N, n);
          av[k] = part(a + j + k * N, n);
          bv[k] = part(b + j + k * N, n);
          cv[k] = part(c + j + k * N, n);
        }
        for (int64_t at = from * l.channels + j; at < to * l.channels; at += l.channels)
          for (int k = 0; k < count; ++k) {
            const V d = part(x + at + k * N, n) - mv[k];
            put(dx + at + k * N, part(dy + at + k * N, n) * av[k] + (d * bv[k] + cv[k]), n);
          }
      });
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
  return {P::statistics, P::template apply<false>, P::template apply<true>, P::grad_sums,
          P::grad_apply};
}
