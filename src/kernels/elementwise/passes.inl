// One pass over a tile for each instruction. Included once for each instruction set.

#include "kernels/vec.inl"

template <class T>
struct Passes {
  using V = VecOf<T>;
  using M = MaskOf<T>;
  static constexpr int N = lanes<T>;

  // An operand as vectors: read along, or one number for all.
  template <bool number>
  struct Operand_ {
    const T* p;
    V value;
    MG_INLINE explicit Operand_(const T* from) : p(from), value(number ? all<T>(*from) : V{}) {}
    MG_INLINE V at(int64_t i) const {
      if constexpr (number) return value;
      return load<T>(p + i);
    }
    MG_INLINE V part(int64_t i, int64_t count) const {
      if constexpr (number) return value;
      return load_part<T>(p + i, count);
    }
  };

  template <class F>
  static void unary(const T* a, const T*, const T*, T* r, int64_t n) {
    int64_t i = 0;
    for (; i + 2 * N <= n; i += 2 * N) {  // two at a time: the chains of polynomials overlap
      V x = F::of(load<T>(a + i)), y = F::of(load<T>(a + i + N));
      store<T>(r + i, x);
      store<T>(r + i + N, y);
    }
    for (; i + N <= n; i += N) store<T>(r + i, F::of(load<T>(a + i)));
    if (i < n) store_part<T>(r + i, F::of(load_part<T>(a + i, n - i)), n - i);
  }

  template <class F, bool na, bool nb>
  static void binary(const T* a, const T* b, const T*, T* r, int64_t n) {
    const Operand_<na> x(a);
    const Operand_<nb> y(b);
    int64_t i = 0;
    for (; i + N <= n; i += N) store<T>(r + i, F::of(x.at(i), y.at(i)));
    if (i < n) store_part<T>(r + i, F::of(x.part(i, n - i), y.part(i, n - i)), n - i);
  }

  template <class F, bool na, bool nb, bool nc>
  static void ternary(const T* a, const T* b, const T* c, T* r, int64_t n) {
    const Operand_<na> x(a);
    const Operand_<nb> y(b);
    const Operand_<nc> z(c);
    int64_t i = 0;
    for (; i + N <= n; i += N) store<T>(r + i, F::of(x.at(i), y.at(i), z.at(i)));
    if (i < n)
      store_part<T>(r + i, F::of(x.part(i, n - i), y.part(i, n - i), z.part(i, n - i)), n - i);
  }

#define MG_UNARY(name, expression) \
  struct name {                    \
    static MG_INLINE V of(V x) { return expression; } \
  };
#define MG_BINARY(name, expression) \
  struct name {                     \
    static MG_INLINE V of(V x, V y) { return expression; } \
  };
  MG_UNARY(Copy, x)
  MG_UNARY(Neg, -x)
  MG_UNARY(Abs, abs_of<T>(x))
  MG_UNARY(Sign, x != x ? x : one_where<T>(x > T(0)) - one_where<T>(x < T(0)))
  MG_UNARY(Sqrt, sqrt_of<T>(x))
  MG_UNARY(Rsqrt, T(1) / sqrt_of<T>(x))
  MG_UNARY(Square, x * x)
  MG_UNARY(Reciprocal, T(1) / x)
  MG_UNARY(Exp, exp_of<T>(x))
  MG_UNARY(Expm1, expm1_of<T>(x))
  MG_UNARY(Log, log_of<T>(x))
  MG_UNARY(Log2, log2_of<T>(x))
  MG_UNARY(Log10, log10_of<T>(x))
  MG_UNARY(Log1p, log1p_of<T>(x))
  MG_UNARY(Tanh, tanh_of<T>(x))
  MG_UNARY(Sigmoid, sigmoid_of<T>(x))
  MG_UNARY(Relu, relu_of<T>(x))
  MG_UNARY(Softsign, x / (abs_of<T>(x) + T(1)))
  MG_UNARY(Softrelu, softrelu_of<T>(x))
  MG_UNARY(Erf, erf_of<T>(x))
  MG_UNARY(Floor, floor_of<T>(x))
  MG_UNARY(Ceil, ceil_of<T>(x))
  MG_UNARY(Trunc, trunc_of<T>(x))
  struct Round {  // halves away from zero
    static MG_INLINE V of(V x) {
      V whole = trunc_of<T>(x), rest = abs_of<T>(x - whole);
      return whole + (rest >= T(0.5) ? with_sign<T>(all<T>(1), x) : all<T>(0));
    }
  };
  struct Rint {  // halves down
    static MG_INLINE V of(V x) {
      V low = floor_of<T>(x), high = ceil_of<T>(x);
      return x - low <= high - x ? low : high;
    }
  };
  MG_UNARY(Not, one_where<T>(x == T(0)))
  MG_UNARY(Isnan, one_where<T>(x != x))
  MG_UNARY(Isinf, one_where<T>(abs_of<T>(x) == all<T>(std::numeric_limits<T>::infinity())))
  MG_UNARY(Isfinite, one_where<T>(abs_of<T>(x) < all<T>(std::numeric_limits<T>::infinity())))
  MG_UNARY(LogOrZero, x == T(0) ? x : log_of<T>(x))
  MG_UNARY(ReciprocalOrZero, x == T(0) ? x : T(1) / x)

  MG_BINARY(Add, x + y)
  MG_BINARY(Sub, x - y)
  MG_BINARY(Mul, x * y)
  MG_BINARY(Div, x / y)
  MG_BINARY(Max, max_of<T>(x, y))
  MG_BINARY(Min, min_of<T>(x, y))
  MG_BINARY(Eq, one_where<T>(x == y))
  MG_BINARY(Ne, one_where<T>(x != y))
  MG_BINARY(Gt, one_where<T>(x > y))
  MG_BINARY(Ge, one_where<T>(x >= y))
  MG_BINARY(Lt, one_where<T>(x < y))
  MG_BINARY(Le, one_where<T>(x <= y))
  MG_BINARY(And, one_where<T>((x != T(0)) & (y != T(0))))
  MG_BINARY(Or, one_where<T>((x != T(0)) | (y != T(0))))
  MG_BINARY(Xor, one_where<T>((x != T(0)) ^ (y != T(0))))
  // x where y > 0, nan where y is nan, else 0
  MG_BINARY(ReluGrad, y > T(0) ? x : (y == y ? all<T>(0) : y))
#undef MG_UNARY
#undef MG_BINARY

  struct Where {
    static MG_INLINE V of(V x, V y, V z) { return x != T(0) ? y : z; }
  };
  struct MulAdd {
    static MG_INLINE V of(V x, V y, V z) { return x * y + z; }
  };
  struct MulSub {
    static MG_INLINE V of(V x, V y, V z) { return x * y - z; }
  };
  struct SubMul {
    static MG_INLINE V of(V x, V y, V z) { return z - x * y; }
  };
  struct Clip {
    static MG_INLINE V of(V x, V y, V z) { return min_of<T>(max_of<T>(x, y), z); }
  };

  // Powers. float: through double, where 2^(y log2 x) with an error of 1e-10 keeps all digits of a
  // float; the polynomials are as short as that allows.
  static MG_INLINE VecOf<double> short_power(VecOf<double> x, VecOf<double> y) {
    using D = VecOf<double>;
    D e;
    D f = log_parts<double>(x, &e) - 1.0;
    D s = f / (f + 2.0), z = s * s;
    D q = z * 0.2219 + 0.26230818925253880;  // 2 / ((2 k + 1) ln 2), the last one evened out
    q = q * z + 0.32059889797532520;
    q = q * z + 0.41219858311113240;
    q = q * z + 0.57707801635558536;
    q = q * z + 0.96179669392597560;
    q = q * z + 2.8853900817779268;
    D t = y * (e + q * s);  // y log2 x
    t = x == 0.0 ? y * -1e300 : t;
    t = x == std::numeric_limits<double>::infinity() ? y * 1e300 : t;
    D low = all<double>(-200), high = all<double>(200);
    D c = t > low ? t : low;
    c = c < high ? c : high;
    D k = (c + Vec<double>::magic) - Vec<double>::magic;
    D r = (c - k) * 0.69314718055994531;  // |r| <= ln2 / 2
    D p = r * 2.4801587e-5 + 1.9841270e-4;
    p = p * r + 1.3888889e-3;
    p = p * r + 8.3333333333e-3;
    p = p * r + 4.1666666666667e-2;
    p = p * r + 0.16666666666666667;
    p = p * r + 0.5;
    p = r * r * p + r + 1.0;
    MaskOf<double> n = bits<double>(k + Vec<double>::magic) - bits<double>(all<double>(Vec<double>::magic));
    p = p * power_of_two<double>(n);
    return (t != t) ? t : p;
  }

  static MG_INLINE V power_of(V x, V y) {
    V r;
    if constexpr (sizeof(T) == 4) {
      typedef float Half __attribute__((vector_size(MG_WIDTH / 2)));
      using D = VecOf<double>;
      const V size = abs_of<T>(x), one = all<T>(1);
      Half parts[2], ys[2], rs[2];
      std::memcpy(parts, &size, sizeof(size));
      std::memcpy(ys, &y, sizeof(y));
      for (int k = 0; k < 2; ++k)
        rs[k] = __builtin_convertvector(
            short_power(__builtin_convertvector(parts[k], D), __builtin_convertvector(ys[k], D)),
            Half);
      std::memcpy(&r, rs, sizeof(r));
      const V inf = all<T>(std::numeric_limits<T>::infinity());
      const M vast = abs_of<T>(y) >= all<T>(16777216);  // whole and even from here on
      const M k = __builtin_convertvector(vast ? V{} : y, M);
      const M whole = vast | (__builtin_convertvector(k, V) == y);
      const M odd = ~vast & whole & ((k & 1) != 0);
      r = (bits<T>(x) < 0) & odd ? -r : r;
      r = (x < T(0)) & (size != inf) & ~whole & (y == y) ? all<T>(std::numeric_limits<T>::quiet_NaN())
                                                         : r;
      r = (x != x) | (y != y) ? x + y : r;
      r = (y == T(0)) | (x == one) | ((size == one) & (abs_of<T>(y) == inf)) ? one : r;
    } else {
      for (int i = 0; i < N; ++i) r[i] = std::pow(x[i], y[i]);
    }
    return r;
  }
  struct Pow {
    static MG_INLINE V of(V x, V y) { return power_of(x, y); }
  };

  template <class F>
  static Pass<T> two(unsigned numbers) {
    return numbers == 0 ? binary<F, false, false> : numbers == 1 ? binary<F, true, false>
                                                                  : binary<F, false, true>;
  }
  template <class F>
  static Pass<T> three(unsigned numbers) {  // the first operand is never a number
    return (numbers & 2) ? ((numbers & 4) ? ternary<F, false, true, true>
                                          : ternary<F, false, true, false>)
                         : ((numbers & 4) ? ternary<F, false, false, true>
                                          : ternary<F, false, false, false>);
  }
};

// The pass of a word; bit i of `numbers`: operand i is one number for the whole tile.
template <class T>
Pass<T> pass_of(Word word, unsigned numbers) {
  using P = Passes<T>;
  switch (word) {
#define MG_ONE(word, name) \
  case Word::word:         \
    return P::template unary<typename P::name>;
#define MG_TWO(word, name) \
  case Word::word:         \
    return P::template two<typename P::name>(numbers);
#define MG_THREE(word, name) \
  case Word::word:           \
    return P::template three<typename P::name>(numbers);
    MG_ONE(copy, Copy)
    MG_ONE(neg, Neg)
    MG_ONE(abs, Abs)
    MG_ONE(sign, Sign)
    MG_ONE(sqrt, Sqrt)
    MG_ONE(rsqrt, Rsqrt)
    MG_ONE(square, Square)
    MG_ONE(reciprocal, Reciprocal)
    MG_ONE(exp, Exp)
    MG_ONE(expm1, Expm1)
    MG_ONE(log, Log)
    MG_ONE(log2, Log2)
    MG_ONE(log10, Log10)
    MG_ONE(log1p, Log1p)
    MG_ONE(tanh, Tanh)
    MG_ONE(sigmoid, Sigmoid)
    MG_ONE(relu, Relu)
    MG_ONE(softsign, Softsign)
    MG_ONE(softrelu, Softrelu)
    MG_ONE(erf, Erf)
    MG_ONE(floor, Floor)
    MG_ONE(ceil, Ceil)
    MG_ONE(trunc, Trunc)
    MG_ONE(round, Round)
    MG_ONE(rint, Rint)
    MG_ONE(logical_not, Not)
    MG_ONE(isnan, Isnan)
    MG_ONE(isinf, Isinf)
    MG_ONE(isfinite, Isfinite)
    MG_ONE(log_or_zero, LogOrZero)
    MG_ONE(reciprocal_or_zero, ReciprocalOrZero)
    MG_TWO(add, Add)
    MG_TWO(sub, Sub)
    MG_TWO(mul, Mul)
    MG_TWO(div, Div)
    MG_TWO(max, Max)
    MG_TWO(min, Min)
    MG_TWO(pow, Pow)
    MG_TWO(eq, Eq)
    MG_TWO(ne, Ne)
    MG_TWO(gt, Gt)
    MG_TWO(ge, Ge)
    MG_TWO(lt, Lt)
    MG_TWO(le, Le)
    MG_TWO(logical_and, And)
    MG_TWO(logical_or, Or)
    MG_TWO(logical_xor, Xor)
    MG_TWO(relu_grad, ReluGrad)
    MG_THREE(where, Where)
    MG_THREE(muladd, MulAdd)
    MG_THREE(mulsub, MulSub)
    MG_THREE(submul, SubMul)
    MG_THREE(clip, Clip)
#undef MG_ONE
#undef MG_TWO
#undef MG_THREE
    default:
      return nullptr;
  }
}

// A tile written past the caches: for results too large to stay in them.
template <class T>
void stream(const T* from, T* to, int64_t n) {
#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
  int64_t i = 0;
  const auto ahead = reinterpret_cast<uintptr_t>(to) % MG_WIDTH;
  if (ahead != 0) {
    i = std::min<int64_t>(n, static_cast<int64_t>((MG_WIDTH - ahead) / sizeof(T)));
    std::memcpy(to, from, static_cast<size_t>(i) * sizeof(T));
  }
  for (; i + lanes<T> <= n; i += lanes<T>) {
#if MG_WIDTH == 64
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), reinterpret_cast<__m512i>(load<T>(from + i)));
#elif MG_WIDTH == 32
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), reinterpret_cast<__m256i>(load<T>(from + i)));
#else
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), reinterpret_cast<__m128i>(load<T>(from + i)));
#endif
  }
  if (i < n) std::memcpy(to + i, from + i, static_cast<size_t>(n - i) * sizeof(T));
#else
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
#endif
}
