// Vectors of MG_WIDTH bytes and mathematics on them. Included once for each instruction set,
// inside its namespace; no include guard. All functions take and keep nan and infinities as
// NumPy does. Errors in units in the last place: see docs/kernels.md.

template <class T>
struct Vec;

template <>
struct Vec<float> {
  typedef float V __attribute__((vector_size(MG_WIDTH)));
  typedef int32_t I __attribute__((vector_size(MG_WIDTH)));
  typedef float U __attribute__((vector_size(MG_WIDTH), aligned(4), may_alias));
  using Int = int32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers
  static constexpr float ln2_hi = 0.693359375f, ln2_lo = -2.12194440e-4f;
  static constexpr float exp_low = -104.0f, exp_high = 89.0f;
  static constexpr Int sqrt_half = 0x3f3504f3;
  static constexpr float grow = 33554432.0f;  // 2^25
  static constexpr int grow_bits = 25;
  static constexpr float tanh_end = 9.5f;
};

template <>
struct Vec<double> {
  typedef double V __attribute__((vector_size(MG_WIDTH)));
  typedef int64_t I __attribute__((vector_size(MG_WIDTH)));
  typedef double U __attribute__((vector_size(MG_WIDTH), aligned(8), may_alias));
  using Int = int64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;
  static constexpr double exp_low = -746.0, exp_high = 710.0;
  static constexpr Int sqrt_half = 0x3fe6a09e667f3bcdLL;
  static constexpr double grow = 18014398509481984.0;  // 2^54
  static constexpr int grow_bits = 54;
  static constexpr double tanh_end = 20.0;
};

template <class T>
using VecOf = typename Vec<T>::V;
template <class T>
using MaskOf = typename Vec<T>::I;
template <class T>
constexpr int lanes = MG_WIDTH / static_cast<int>(sizeof(T));

template <class T>
MG_INLINE VecOf<T> load(const T* p) {
  return *reinterpret_cast<const typename Vec<T>::U*>(p);
}
template <class T>
MG_INLINE void store(T* p, VecOf<T> v) {
  *reinterpret_cast<typename Vec<T>::U*>(p) = v;
}
// The first `count` < lanes elements; the others are 0.
template <class T>
MG_INLINE VecOf<T> load_part(const T* p, int64_t count) {
#if MG_WIDTH == 64
  if constexpr (sizeof(T) == 4)
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
  else
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p);
#else
  VecOf<T> v = {};
  std::memcpy(&v, p, static_cast<size_t>(count) * sizeof(T));
  return v;
#endif
}
template <class T>
MG_INLINE void store_part(T* p, VecOf<T> v, int64_t count) {
#if MG_WIDTH == 64
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), v);
  else
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), v);
#else
  std::memcpy(p, &v, static_cast<size_t>(count) * sizeof(T));
#endif
}
template <class T>
MG_INLINE VecOf<T> all(T x) {
  return x - VecOf<T>{};
}
template <class T>
MG_INLINE MaskOf<T> bits(VecOf<T> v) {
  return reinterpret_cast<MaskOf<T>>(v);
}
template <class T>
MG_INLINE VecOf<T> from_bits(MaskOf<T> v) {
  return reinterpret_cast<VecOf<T>>(v);
}
template <class T>
MG_INLINE VecOf<T> abs_of(VecOf<T> v) {
  return from_bits<T>(bits<T>(v) & std::numeric_limits<typename Vec<T>::Int>::max());
}
template <class T>
MG_INLINE VecOf<T> with_sign(VecOf<T> size, VecOf<T> sign) {
  using Int = typename Vec<T>::Int;
  return from_bits<T>((bits<T>(size) & std::numeric_limits<Int>::max()) |
                      (bits<T>(sign) & std::numeric_limits<Int>::min()));
}
template <class T>
MG_INLINE VecOf<T> one_where(MaskOf<T> mask) {
  return from_bits<T>(mask & bits<T>(all<T>(1)));
}
template <class T>
MG_INLINE VecOf<T> max_of(VecOf<T> a, VecOf<T> b) {  // nan of either operand stays
  return (a >= b) | (a != a) ? a : b;
}
template <class T>
MG_INLINE VecOf<T> min_of(VecOf<T> a, VecOf<T> b) {
  return (a <= b) | (a != a) ? a : b;
}
// max(x, 0): nan stays, -0 becomes 0.
template <class T>
MG_INLINE VecOf<T> relu_of(VecOf<T> x) {
  return x <= VecOf<T>{} ? VecOf<T>{} : x;
}
template <class T>
MG_INLINE VecOf<T> sqrt_of(VecOf<T> v) {
  VecOf<T> r;
  for (int i = 0; i < lanes<T>; ++i) r[i] = std::sqrt(v[i]);
  return r;
}
template <class T>
MG_INLINE T sum_lanes(VecOf<T> v) {
  T part[lanes<T>];
  std::memcpy(part, &v, sizeof(part));
  for (int step = lanes<T> / 2; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) part[i] += part[i + step];
  return part[0];
}

// 2^n for whole n within the exponents of normal numbers.
template <class T>
MG_INLINE VecOf<T> power_of_two(MaskOf<T> n) {
  return from_bits<T>((n + Vec<T>::bias) << Vec<T>::mantissa);
}
// v * 2^n in two steps: n may lead to denormal numbers or infinity.
template <class T>
MG_INLINE VecOf<T> scaled(VecOf<T> v, MaskOf<T> n) {
  // a logical shift of a positive number: 64-bit arithmetic shifts are slow before AVX-512
  typedef std::make_unsigned_t<typename Vec<T>::Int> UI __attribute__((vector_size(MG_WIDTH)));
  MaskOf<T> half = reinterpret_cast<MaskOf<T>>(reinterpret_cast<UI>(n + 4096) >> 1) - 2048;
  return v * power_of_two<T>(half) * power_of_two<T>(n - half);
}

// x = n ln2 + r with |r| <= ln2 / 2.
template <class T>
MG_INLINE VecOf<T> reduce_exp(VecOf<T> x, MaskOf<T>* n) {
  using C = Vec<T>;
  VecOf<T> t = x * static_cast<T>(1.4426950408889634) + C::magic;
  *n = bits<T>(t) - bits<T>(all<T>(C::magic));
  VecOf<T> k = t - C::magic;
  return (x - k * C::ln2_hi) - k * C::ln2_lo;
}

// (e^r - 1 - r) / r^2 for |r| <= ln2 / 2: the Taylor series as far as it counts.
template <class T>
MG_INLINE VecOf<T> exp_rest(VecOf<T> r) {
  if constexpr (sizeof(T) == 4) {
    VecOf<T> q = r * 1.98412698e-4f + 1.38888889e-3f;
    q = q * r + 8.33333333e-3f;
    q = q * r + 4.16666667e-2f;
    q = q * r + 1.66666667e-1f;
    return q * r + 0.5f;
  } else {
    VecOf<T> q = r * 1.6059043836821613e-10 + 2.0876756987868099e-9;
    q = q * r + 2.5052108385441719e-8;
    q = q * r + 2.7557319223985891e-7;
    q = q * r + 2.7557319223985893e-6;
    q = q * r + 2.4801587301587302e-5;
    q = q * r + 1.9841269841269841e-4;
    q = q * r + 1.3888888888888889e-3;
    q = q * r + 8.3333333333333333e-3;
    q = q * r + 4.1666666666666667e-2;
    q = q * r + 1.6666666666666667e-1;
    return q * r + 0.5;
  }
}

template <class T>
MG_INLINE VecOf<T> clamp_exp(VecOf<T> x) {  // nan becomes exp_low
  VecOf<T> low = all<T>(Vec<T>::exp_low), high = all<T>(Vec<T>::exp_high);
  x = x > low ? x : low;
  return x < high ? x : high;
}

template <class T>
MG_INLINE VecOf<T> exp_of(VecOf<T> x) {
#if MG_WIDTH == 64
  // minima and maxima that hand a nan on, and one instruction for the power of two (the masks are
  // all ones: without them GCC 12 warns of its own headers)
  using C = Vec<T>;
  VecOf<T> c, p;
  if constexpr (sizeof(T) == 4)
    c = _mm512_maskz_max_ps(0xffff, all<T>(C::exp_low),
                            _mm512_maskz_min_ps(0xffff, all<T>(C::exp_high), x));
  else
    c = _mm512_maskz_max_pd(0xff, all<T>(C::exp_low),
                            _mm512_maskz_min_pd(0xff, all<T>(C::exp_high), x));
  const VecOf<T> k = (c * static_cast<T>(1.4426950408889634) + C::magic) - C::magic;
  const VecOf<T> r = (c - k * C::ln2_hi) - k * C::ln2_lo;
  p = r * r * exp_rest<T>(r) + r + T(1);
  if constexpr (sizeof(T) == 4) return _mm512_maskz_scalef_ps(0xffff, p, k);
  else return _mm512_maskz_scalef_pd(0xff, p, k);
#else
  MaskOf<T> n;
  VecOf<T> r = reduce_exp<T>(clamp_exp<T>(x), &n);
  VecOf<T> p = r * r * exp_rest<T>(r) + r + T(1);
  p = scaled<T>(p, n);
  return x != x ? x : p;
#endif
}

template <class T>
MG_INLINE VecOf<T> expm1_of(VecOf<T> x) {
  MaskOf<T> n;
  VecOf<T> low = all<T>(T(sizeof(T) == 4 ? -20 : -40));  // e^x - 1 is -1 before that
  VecOf<T> c = clamp_exp<T>(x);
  c = c > low ? c : low;
  VecOf<T> r = reduce_exp<T>(c, &n);
  VecOf<T> p = r * r * exp_rest<T>(r) + r;  // e^r - 1
  VecOf<T> s = power_of_two<T>(n - 1);      // 2^(n - 1): n may be beyond the largest exponent
  VecOf<T> big = (s * p + (s - T(0.5))) * T(2);
  VecOf<T> result = n == 0 ? p : big;
  result = x == T(0) ? x : result;  // -0 stays
  return x != x ? x : result;
}

// log(m) for x = m 2^e with m in [sqrt(1/2), sqrt(2)): `*e` and log(m); x > 0, finite.
template <class T>
MG_INLINE VecOf<T> log_parts(VecOf<T> x, VecOf<T>* e) {
  using C = Vec<T>;
  // Unsigned: nan and what is out of range wrap here, and the caller puts the right value in.
  using U = std::make_unsigned_t<typename C::Int>;
  typedef U UI __attribute__((vector_size(MG_WIDTH)));
  MaskOf<T> tiny = x < std::numeric_limits<T>::min();
  x = tiny ? x * C::grow : x;
  constexpr U lift = U(C::bias) << C::mantissa;
  const UI word = reinterpret_cast<UI>(bits<T>(x));
  const UI k = ((word - U(C::sqrt_half) + lift) >> C::mantissa) - U(C::bias);
  VecOf<T> m = from_bits<T>(reinterpret_cast<MaskOf<T>>(word - (k << C::mantissa)));
  VecOf<T> whole = from_bits<T>(reinterpret_cast<MaskOf<T>>(
                       k + reinterpret_cast<UI>(bits<T>(all<T>(C::magic))))) -
                   C::magic;
  *e = whole - (tiny ? all<T>(T(C::grow_bits)) : all<T>(T(0)));
  return m;
}

// log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)), by s = f / (2 + f): 2 (s + s^3/3 + s^5/5 ...).
template <class T>
MG_INLINE VecOf<T> log_near_one(VecOf<T> f) {
  VecOf<T> s = f / (f + T(2));
  VecOf<T> z = s * s, q;
  if constexpr (sizeof(T) == 4) {
    q = z * 0.22222222f + 0.28571429f;
    q = q * z + 0.4f;
    q = q * z + 0.66666667f;
  } else {
    q = z * (2.0 / 23) + 2.0 / 21;
    q = q * z + 2.0 / 19;
    q = q * z + 2.0 / 17;
    q = q * z + 2.0 / 15;
    q = q * z + 2.0 / 13;
    q = q * z + 2.0 / 11;
    q = q * z + 2.0 / 9;
    q = q * z + 2.0 / 7;
    q = q * z + 2.0 / 5;
    q = q * z + 2.0 / 3;
  }
  VecOf<T> half = f * f * T(0.5);
  return f - (half - s * (half + z * q));
}

template <class T>
MG_INLINE VecOf<T> log_ends(VecOf<T> x, VecOf<T> result) {  // 0, negative, infinite, nan
  VecOf<T> inf = all<T>(std::numeric_limits<T>::infinity());
  result = x == T(0) ? -inf : result;
  result = x < T(0) ? all<T>(std::numeric_limits<T>::quiet_NaN()) : result;
  return (x == inf) | (x != x) ? x : result;
}

template <class T>
MG_INLINE VecOf<T> log_of(VecOf<T> x) {
  VecOf<T> e;
  VecOf<T> f = log_parts<T>(x, &e) - T(1);
  return log_ends<T>(x, e * Vec<T>::ln2_hi + (e * Vec<T>::ln2_lo + log_near_one<T>(f)));
}

template <class T>
MG_INLINE VecOf<T> log2_of(VecOf<T> x) {
  VecOf<T> e;
  VecOf<T> f = log_parts<T>(x, &e) - T(1);
  // 1 / ln 2 in two pieces, the first without low bits, so that the product keeps its digits
  VecOf<T> l = log_near_one<T>(f);
  return log_ends<T>(x, e + (l + l * static_cast<T>(0.44269504088896341)));
}

template <class T>
MG_INLINE VecOf<T> log10_of(VecOf<T> x) {
  VecOf<T> e;
  VecOf<T> f = log_parts<T>(x, &e) - T(1);
  constexpr T hi = sizeof(T) == 4 ? T(0.30078125) : T(0.30102999566406652);
  constexpr T lo = T(0.30102999566398119521 - static_cast<double>(hi));
  VecOf<T> l = log_near_one<T>(f);
  return log_ends<T>(x, e * hi + (e * lo + l * static_cast<T>(0.43429448190325183)));
}

template <class T>
MG_INLINE VecOf<T> log1p_of(VecOf<T> x) {
  VecOf<T> u = x + T(1);
  VecOf<T> d = u - T(1);  // what of x came through
  VecOf<T> fix = (x - d) / u;
  VecOf<T> inf = all<T>(std::numeric_limits<T>::infinity());
  VecOf<T> result = log_of<T>(u) + fix;
  result = u == T(0) ? -inf : result;
  result = u == inf ? inf : result;
  return x == T(0) ? x : result;
}

// a / b for b in [1, 2].
template <class T>
MG_INLINE VecOf<T> quotient(VecOf<T> a, VecOf<T> b) {
#if MG_WIDTH == 64
  if constexpr (sizeof(T) == 4) {  // half the time of a division, which waits for one unit
    VecOf<T> r = _mm512_maskz_rcp14_ps(0xffff, b);
    r += r * (T(1) - b * r);
    const VecOf<T> q = a * r;
    return q + r * (a - b * q);
  }
#endif
  return a / b;
}

template <class T>
MG_INLINE VecOf<T> tanh_of(VecOf<T> x) {
  VecOf<T> size = abs_of<T>(x), end = all<T>(Vec<T>::tanh_end);
  size = size < end ? size : end;
  MaskOf<T> n;
  const VecOf<T> r = reduce_exp<T>(size * T(-2), &n);
  const VecOf<T> s = power_of_two<T>(n), one = all<T>(1);
  // e^(-2x) - 1, in (-1, 0]; near zero s is 1 and nothing is lost
  const VecOf<T> d = s * (r * r * exp_rest<T>(r) + r) + (s - one);
  VecOf<T> result = with_sign<T>(quotient<T>(d, d + T(2)), x);
  return x != x ? x : result;
}

template <class T>
MG_INLINE VecOf<T> sigmoid_of(VecOf<T> x) {
  VecOf<T> decay = exp_of<T>(-abs_of<T>(x));
  VecOf<T> one = all<T>(1);
  return quotient<T>(x >= T(0) ? one : decay, one + decay);
}

// log(1 + e^x)
template <class T>
MG_INLINE VecOf<T> softrelu_of(VecOf<T> x) {
  VecOf<T> result = max_of<T>(x, all<T>(0)) + log1p_of<T>(exp_of<T>(-abs_of<T>(x)));
  return x != x ? x : result;
}

#include "kernels/erf_tables.inl"

template <class T, int count>
MG_INLINE VecOf<T> horner(const T (&table)[count], VecOf<T> s) {
  VecOf<T> r = all<T>(table[count - 1]);
  for (int i = count - 2; i >= 0; --i) r = r * s + table[i];
  return r;
}

// Near zero x times a polynomial in x^2, further out 1 - exp(-x^2) times one in
// t = (x - 3.75) / (x + 3.75): the same division of labour as in ops/special.py.
template <class T>
MG_INLINE VecOf<T> erf_of(VecOf<T> x) {
  using K = ErfTables<T>;
  VecOf<T> size = abs_of<T>(x), one = all<T>(1), six = all<T>(6);
  VecOf<T> small = size < one ? size : one;
  VecOf<T> near = horner<T>(K::near, T(2) * small * small - T(1)) * small;
  VecOf<T> large = size > one ? size : one;
  large = large < six ? large : six;
  VecOf<T> s = ((large - T(3.75)) / (large + T(3.75)) - K::low) * K::stretch - T(1);
  VecOf<T> far = one - exp_of<T>(-large * large) * horner<T>(K::far, s);
  VecOf<T> result = with_sign<T>(size > one ? far : near, x);
  return x != x ? x : result;
}

// Whole numbers: v rounded toward zero; numbers from 2^mantissa on are whole already.
template <class T>
MG_INLINE VecOf<T> trunc_of(VecOf<T> v) {
  VecOf<T> r;
  for (int i = 0; i < lanes<T>; ++i) r[i] = std::trunc(v[i]);
  return r;
}
template <class T>
MG_INLINE VecOf<T> floor_of(VecOf<T> v) {
  VecOf<T> r;
  for (int i = 0; i < lanes<T>; ++i) r[i] = std::floor(v[i]);
  return r;
}
template <class T>
MG_INLINE VecOf<T> ceil_of(VecOf<T> v) {
  VecOf<T> r;
  for (int i = 0; i < lanes<T>; ++i) r[i] = std::ceil(v[i]);
  return r;
}
