// Reductions. Included once for each instruction set.
//
// The axes of the input, neighbours of one kind joined, are (kept, folded, kept): `outer` results,
// each over `count` elements, for `inner` neighbours. A second folded stretch in front is possible
// (NCHW over all but C). Sums of stretches of some thousand elements are added up in double.

#include "kernels/vec.inl"

template <class T>
struct Reductions {
  using V = VecOf<T>;
  static constexpr int N = lanes<T>;

  struct Sum {
    static constexpr bool adds = true;
    static MG_INLINE V start() { return V{}; }
    static MG_INLINE V first(V x) { return x; }
    static MG_INLINE V join(V a, V b) { return a + b; }
    static MG_INLINE T one(T x) { return x; }
    static MG_INLINE T both(T a, T b) { return a + b; }
  };
  struct Squares : Sum {
    static MG_INLINE V first(V x) { return x * x; }
    static MG_INLINE T one(T x) { return x * x; }
  };
  struct Sizes : Sum {
    static MG_INLINE V first(V x) { return abs_of<T>(x); }
    static MG_INLINE T one(T x) { return std::abs(x); }
  };
  struct Max {
    static constexpr bool adds = false;
    static MG_INLINE V start() { return all<T>(-std::numeric_limits<T>::infinity()); }
    static MG_INLINE V first(V x) { return x; }
    static MG_INLINE V join(V a, V b) { return max_of<T>(a, b); }
    static MG_INLINE T one(T x) { return x; }
    static MG_INLINE T both(T a, T b) { return a >= b || a != a ? a : b; }
  };
  struct Min {
    static constexpr bool adds = false;
    static MG_INLINE V start() { return all<T>(std::numeric_limits<T>::infinity()); }
    static MG_INLINE V first(V x) { return x; }
    static MG_INLINE V join(V a, V b) { return min_of<T>(a, b); }
    static MG_INLINE T one(T x) { return x; }
    static MG_INLINE T both(T a, T b) { return a <= b || a != a ? a : b; }
  };

  // The lanes of one vector folded; extremes keep nan.
  template <class R>
  static MG_INLINE double fold_lanes(V v) {
    if constexpr (R::adds) return static_cast<double>(sum_lanes<T>(v));
    T part[N];
    std::memcpy(part, &v, sizeof(part));
    for (int step = N / 2; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) {
        V a = all<T>(part[i]), b = all<T>(part[i + step]);
        part[i] = R::join(a, b)[0];
      }
    }
    return static_cast<double>(part[0]);
  }

  template <class R>
  static MG_INLINE double combine(double a, double b) {
    if constexpr (R::adds) return a + b;
    return static_cast<double>(R::join(all<T>(static_cast<T>(a)), all<T>(static_cast<T>(b)))[0]);
  }

  // `n` neighbours.
  template <class R>
  static double run(const T* x, int64_t n) {
    constexpr int64_t block = 8192;
    double total = 0;
    bool any = false;
    for (int64_t from = 0; from < n; from += block) {
      const int64_t m = std::min(block, n - from);
      const T* p = x + from;
      V a = R::start(), b = a, c = a, d = a;
      int64_t i = 0;
      for (; i + 4 * N <= m; i += 4 * N) {
        a = R::join(a, R::first(load<T>(p + i)));
        b = R::join(b, R::first(load<T>(p + i + N)));
        c = R::join(c, R::first(load<T>(p + i + 2 * N)));
        d = R::join(d, R::first(load<T>(p + i + 3 * N)));
      }
      for (; i + N <= m; i += N) a = R::join(a, R::first(load<T>(p + i)));
      a = R::join(R::join(a, b), R::join(c, d));
      if (i < m) {
        alignas(64) T rest[N];
        store<T>(rest, R::start());
        std::copy(p + i, p + m, rest);
        a = R::join(a, R::first(load<T>(rest)));
      }
      const double part = fold_lanes<R>(a);
      total = any ? combine<R>(total, part) : part;
      any = true;
    }
    return total;
  }

  // Row by row into `width` results side by side; rows are `stride` apart.
  template <class R>
  static void columns(const T* x, int64_t rows, int64_t stride, int64_t width, T* out) {
    int64_t j = 0;
    for (; j + 4 * N <= width; j += 4 * N) {
      V acc[4] = {R::start(), R::start(), R::start(), R::start()};
      for (int64_t r = 0; r < rows; ++r) {
        const T* p = x + r * stride + j;
        for (int k = 0; k < 4; ++k) acc[k] = R::join(acc[k], R::first(load<T>(p + k * N)));
      }
      for (int k = 0; k < 4; ++k) store<T>(out + j + k * N, acc[k]);
    }
    for (; j < width; j += N) {
      const int64_t n = std::min<int64_t>(N, width - j);
      V acc = R::start();
      for (int64_t r = 0; r < rows; ++r) {
        const T* p = x + r * stride + j;
        acc = R::join(acc, R::first(n == N ? load<T>(p) : load_part<T>(p, n)));
      }
      if (n == N) store<T>(out + j, acc);
      else store_part<T>(out + j, acc, n);
    }
  }

  // Fewer elements a result than a vector has lanes.
  template <class R>
  static void few(const Folding& f, const T* x, T* out, int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const T* p = x + o * f.count;
      T total = R::one(p[0]);
      for (int64_t i = 1; i < f.count; ++i) total = R::both(total, R::one(p[i]));
      out[o] = finished<T>(f, static_cast<double>(total));
    }
  }

  template <class R>
  static void kept_last(const Folding& f, const T* x, T* out, int64_t begin, int64_t end,
                        int64_t from, int64_t to) {
    constexpr int64_t block = 256;  // rows summed before their sum joins the others'
    for (int64_t o = begin; o < end; ++o) {
      const T* p = x + o * f.count * f.inner;
      T* r = out + o * f.inner;
      T part[256];
      for (int64_t j = from; j < to; j += 256) {
        const int64_t width = std::min<int64_t>(256, to - j);
        for (int64_t c = 0; c < f.count; c += block) {
          T* target = c == 0 ? r + j : part;
          columns<R>(p + c * f.inner + j, std::min(block, f.count - c), f.inner, width, target);
          if (c == 0) continue;
          for (int64_t i = 0; i < width; i += N) {
            const int64_t n = std::min<int64_t>(N, width - i);
            if (n == N) store<T>(r + j + i, R::join(load<T>(r + j + i), load<T>(part + i)));
            else
              store_part<T>(r + j + i,
                            R::join(load_part<T>(r + j + i, n), load_part<T>(part + i, n)), n);
          }
        }
        for (int64_t i = 0; i < width; ++i)
          r[j + i] = finished<T>(f, static_cast<double>(r[j + i]));
      }
    }
  }

  template <class R>
  static void reduce(const Folding& f, const void* in, void* result, int64_t begin, int64_t end,
                     int64_t from, int64_t to) {
    const T* x = static_cast<const T*>(in);
    T* out = static_cast<T*>(result);
    if (f.inner > 1) return kept_last<R>(f, x, out, begin, end, from, to);
    if (f.front == 1 && f.count < N) return few<R>(f, x, out, begin, end);
    constexpr int64_t block = 64;  // results at a time, so that memory is read along
    double total[block];
    for (int64_t o = begin; o < end; o += block) {
      const int64_t m = std::min(block, end - o);
      for (int64_t k = 0; k < f.front; ++k)
        for (int64_t i = 0; i < m; ++i) {
          const double part = run<R>(x + (k * f.outer + o + i) * f.count, f.count);
          total[i] = k == 0 ? part : combine<R>(total[i], part);
        }
      for (int64_t i = 0; i < m; ++i) out[o + i] = finished<T>(f, total[i]);
    }
  }
};

template <class T>
FoldPass fold_pass(Fold kind) {
  using P = Reductions<T>;
  switch (kind) {
    case Fold::sum: return P::template reduce<typename P::Sum>;
    case Fold::squares: return P::template reduce<typename P::Squares>;
    case Fold::sizes: return P::template reduce<typename P::Sizes>;
    case Fold::max: return P::template reduce<typename P::Max>;
    default: return P::template reduce<typename P::Min>;
  }
}
