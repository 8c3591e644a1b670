// Softmax, log_softmax and their gradients, row by row or column by column. Included once for each
// instruction set. A row: `count` numbers that are `inner` apart (1: neighbours).

#include "kernels/vec.inl"

template <class T>
struct Softmax {
  using V = VecOf<T>;
  static constexpr int N = lanes<T>;

  template <class F>
  static MG_INLINE void each(int64_t n, F&& f) {  // f(i, count) for whole vectors, then the rest
    int64_t i = 0;
    for (; i + N <= n; i += N) f(i, std::integral_constant<int, N>());
    if (i < n) f(i, static_cast<int>(n - i));
  }
  static MG_INLINE V get(const T* p, std::integral_constant<int, N>) { return load<T>(p); }
  static MG_INLINE V get(const T* p, int n) { return load_part<T>(p, n); }
  static MG_INLINE void put(T* p, V v, std::integral_constant<int, N>) { store<T>(p, v); }
  static MG_INLINE void put(T* p, V v, int n) { store_part<T>(p, v, n); }
  // The lanes behind the first n become `value`.
  static MG_INLINE V rest(V v, V, std::integral_constant<int, N>) { return v; }
  static MG_INLINE V rest(V v, V value, int n) {
    std::memcpy(&value, &v, static_cast<size_t>(n) * sizeof(T));
    return value;
  }

  // A nan may be passed over here: it makes the sum nan.
  static MG_INLINE V larger(V a, V b) { return a > b ? a : b; }
  static MG_INLINE T largest(const T* x, int64_t n) {
    const V low = all<T>(-std::numeric_limits<T>::infinity());
    V best[4] = {low, low, low, low};
    int64_t i = 0;
    for (; i + 4 * N <= n; i += 4 * N)
      for (int k = 0; k < 4; ++k) best[k] = larger(load<T>(x + i + k * N), best[k]);
    each(n - i, [&](int64_t j, auto m) {
      best[0] = larger(rest(get(x + i + j, m), low, m), best[0]);
    });
    best[0] = larger(larger(best[0], best[1]), larger(best[2], best[3]));
    T part[N];
    std::memcpy(part, &best[0], sizeof(part));
    T top = part[0];
    for (int k = 1; k < N; ++k) top = part[k] > top ? part[k] : top;
    return top;
  }

  static void row(const T* x, T* y, int64_t n, bool log) {
    const V top = all<T>(largest(x, n));
    V total = {};
    if (log) {
      each(n, [&](int64_t i, auto m) {
        total += rest(exp_of<T>(get(x + i, m) - top), V{}, m);
      });
      const V logs = log_of<T>(all<T>(sum_lanes<T>(total)));
      each(n, [&](int64_t i, auto m) { put(y + i, (get(x + i, m) - top) - logs, m); });
      return;
    }
    each(n, [&](int64_t i, auto m) {
      V e = exp_of<T>(get(x + i, m) - top);
      put(y + i, e, m);
      total += rest(e, V{}, m);
    });
    const V sum = all<T>(sum_lanes<T>(total));
    each(n, [&](int64_t i, auto m) { put(y + i, get(y + i, m) / sum, m); });
  }

  // As many columns side by side as a vector has lanes.
  template <class M>
  static MG_INLINE void column(const T* x, T* y, int64_t count, int64_t inner, bool log, M m) {
    V top = get(x, m);
    for (int64_t c = 1; c < count; ++c) top = larger(get(x + c * inner, m), top);
    V total = {};
    for (int64_t c = 0; c < count; ++c) {
      V e = exp_of<T>(get(x + c * inner, m) - top);
      if (!log) put(y + c * inner, e, m);
      total += e;
    }
    if (log) total = log_of<T>(total);
    for (int64_t c = 0; c < count; ++c) {
      V v = log ? (get(x + c * inner, m) - top) - total : get(y + c * inner, m) / total;
      put(y + c * inner, v, m);
    }
  }

  // Short rows, as many as a vector has lanes, as columns: one exp for each place, not each row.
  static MG_INLINE void short_rows(const T* x, T* y, int64_t count, bool log) {
    alignas(64) T turned[N * N] = {};
    for (int64_t r = 0; r < N; ++r)
      for (int64_t c = 0; c < count; ++c) turned[c * N + r] = x[r * count + c];
    column(turned, turned, count, N, log, std::integral_constant<int, N>());
    for (int64_t r = 0; r < N; ++r)
      for (int64_t c = 0; c < count; ++c) y[r * count + c] = turned[c * N + r];
  }

  // Results number `begin` to `end` of the outer ones.
  template <bool log>
  static void forward(const Rows& r, const void* const* in, void* const* out, int64_t begin,
                      int64_t end) {
    const T* x = static_cast<const T*>(in[0]);
    T* y = static_cast<T*>(out[0]);
    int64_t o = begin;
    if (r.inner == 1 && r.count <= N) {
      for (; o + N <= end; o += N) short_rows(x + o * r.count, y + o * r.count, r.count, log);
    }
    for (; o < end; ++o) {
      const T* p = x + o * r.count * r.inner;
      T* q = y + o * r.count * r.inner;
      if (r.inner == 1) row(p, q, r.count, log);
      else
        each(r.inner, [&](int64_t i, auto m) { column(p + i, q + i, r.count, r.inner, log, m); });
    }
  }

  // dx = y (dy - sum dy y), or with y = log softmax dy - e^y sum dy; in: dy, y.
  template <bool log>
  static void backward(const Rows& r, const void* const* in, void* const* out, int64_t begin,
                       int64_t end) {
    const T* grads = static_cast<const T*>(in[0]);
    const T* results = static_cast<const T*>(in[1]);
    T* target = static_cast<T*>(out[0]);
    for (int64_t o = begin; o < end; ++o) {
      const int64_t at = o * r.count * r.inner;
      const T *dy = grads + at, *y = results + at;
      T* dx = target + at;
      if (r.inner == 1) {
        V total = {};
        each(r.count, [&](int64_t i, auto m) {
          V g = get(dy + i, m);
          total += log ? g : g * get(y + i, m);
        });
        const V sum = all<T>(sum_lanes<T>(total));
        each(r.count, [&](int64_t i, auto m) {
          put(dx + i, slope<log>(get(dy + i, m), get(y + i, m), sum), m);
        });
        continue;
      }
      each(r.inner, [&](int64_t i, auto m) {
        V sum = {};
        for (int64_t c = i; c < r.count * r.inner; c += r.inner) {
          V g = get(dy + c, m);
          sum += log ? g : g * get(y + c, m);
        }
        for (int64_t c = i; c < r.count * r.inner; c += r.inner)
          put(dx + c, slope<log>(get(dy + c, m), get(y + c, m), sum), m);
      });
    }
  }
  template <bool log>
  static MG_INLINE V slope(V g, V y, V sum) {
    return log ? g - exp_of<T>(y) * sum : y * (g - sum);
  }
};

// dx = -e^y g, and g more at the place: what goes back from one picked element a row.
template <class T>
void picked_back(int64_t count, const void* y, void* dx, double grad, int64_t place) {
  using S = Softmax<T>;
  const T* from = static_cast<const T*>(y);
  T* to = static_cast<T*>(dx);
  const auto g = all<T>(static_cast<T>(-grad));
  S::each(count, [&](int64_t i, auto m) {
    S::put(to + i, exp_of<T>(S::get(from + i, m)) * g, m);
  });
  to[place] += static_cast<T>(grad);
}

template <class T>
RowPass softmax_pass(int kind) {
  using S = Softmax<T>;
  return kind == 0   ? S::template forward<false>
         : kind == 1 ? S::template forward<true>
         : kind == 2 ? S::template backward<false>
                     : S::template backward<true>;
}
