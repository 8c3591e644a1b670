// Loops between element types. Included once for each instruction set.

MG_INLINE float to_float(Half half) {
  // the exponent moves by 112; multiplying does it for denormal numbers, too
  const uint32_t magnitude = half.bits & 0x7fffu, sign = (half.bits & 0x8000u) << 16;
  uint32_t word = magnitude << 13;
  if (magnitude >= 0x7c00u) {  // infinity and nan
    word |= 0x7f800000u;
  } else {
    float value;
    std::memcpy(&value, &word, 4);
    value *= 5.192296858534828e33f;  // 2^112
    std::memcpy(&word, &value, 4);
  }
  word |= sign;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

MG_INLINE Half to_half(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  const uint32_t sign = (word >> 16) & 0x8000u, magnitude = word & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 65536 and more
    result = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: the sum with 0.5 rounds to what is kept
    float small;
    std::memcpy(&small, &magnitude, 4);
    small += 0.5f;
    uint32_t sum;
    std::memcpy(&sum, &small, 4);
    result = sum - 0x3f000000u;
  } else {
    const uint32_t odd = (magnitude >> 13) & 1u;
    result = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
  }
  return {static_cast<uint16_t>(result | sign)};
}

// Rows; by the machine's instructions where it has them.
void halves_to_floats(const Half* from, float* to, int64_t n) {
  int64_t i = 0;
#if MG_WIDTH == 64
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(to + i, _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(
                                 reinterpret_cast<const __m256i*>(from + i))));
#elif MG_WIDTH == 32
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

// Rounded to even, nan stays nan.
void floats_to_halves(const float* from, Half* to, int64_t n) {
  int64_t i = 0;
#if MG_WIDTH == 64
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from + i),
                                              _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif MG_WIDTH == 32
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; ++i) to[i] = to_half(from[i]);
}

// A float that rounds to the same float16 as the double does: cut off, the last bit set where
// anything was lost.
MG_INLINE float for_half(double value) {
  float near = static_cast<float>(value);
  uint32_t word;
  std::memcpy(&word, &near, 4);
  const double back = static_cast<double>(near);
  const bool lost = back != value && value == value;
  const uint32_t beyond = std::fabs(back) > std::fabs(value) ? 1u : 0u;
  word = lost ? (word - beyond) | 1u : word;
  std::memcpy(&near, &word, 4);
  return near;
}

// One number. Of floating point numbers beyond an integer type that keeps what the machine's
// conversion to 32 (64) bits gives, the lowest bits of it for types of 8 bits.
template <class From, class To>
MG_INLINE To number(From value) {
  if constexpr (std::is_same_v<To, bool>) return value != From(0);
  else if constexpr (std::is_floating_point_v<From> && sizeof(To) == 1)
    return static_cast<To>(static_cast<int32_t>(value));
  else return static_cast<To>(value);
}

template <class From, class To>
void numbers(const void* from, void* to, int64_t n) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  constexpr int64_t kPart = 512;
  if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, Half>) {
    std::memcpy(y, x, static_cast<size_t>(n) * 2);
  } else if constexpr (std::is_same_v<From, Half>) {
    if constexpr (std::is_same_v<To, float>) return halves_to_floats(x, y, n);
    else {
      float part[kPart];
      for (int64_t at = 0; at < n; at += kPart) {
        const int64_t m = std::min(kPart, n - at);
        halves_to_floats(x + at, part, m);
        for (int64_t i = 0; i < m; ++i) y[at + i] = number<float, To>(part[i]);
      }
    }
  } else if constexpr (std::is_same_v<To, Half>) {
    if constexpr (std::is_same_v<From, float>) return floats_to_halves(x, y, n);
    else {
      float part[kPart];
      for (int64_t at = 0; at < n; at += kPart) {
        const int64_t m = std::min(kPart, n - at);
        for (int64_t i = 0; i < m; ++i) {
          if constexpr (std::is_same_v<From, double>) part[i] = for_half(x[at + i]);
          else part[i] = static_cast<float>(x[at + i]);
        }
        floats_to_halves(part, y + at, m);
      }
    }
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = number<From, To>(x[i]);
  }
}

template <class From>
CastLoop to_type(DType to) {
  switch (to) {
    case DType::f32: return numbers<From, float>;
    case DType::f64: return numbers<From, double>;
    case DType::f16: return numbers<From, Half>;
    case DType::i32: return numbers<From, int32_t>;
    case DType::i64: return numbers<From, int64_t>;
    case DType::u8: return numbers<From, uint8_t>;
    case DType::i8: return numbers<From, int8_t>;
    default: return numbers<From, bool>;
  }
}

CastLoop loop_of(DType from, DType to) {
  switch (from) {
    case DType::f32: return to_type<float>(to);
    case DType::f64: return to_type<double>(to);
    case DType::f16: return to_type<Half>(to);
    case DType::i32: return to_type<int32_t>(to);
    case DType::i64: return to_type<int64_t>(to);
    case DType::u8: return to_type<uint8_t>(to);
    case DType::i8: return to_type<int8_t>(to);
    default: return to_type<bool>(to);
  }
}
