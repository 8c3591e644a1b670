// Gradients in one or two bits an element, and sums of gradients, packed or not. Included once for
// each instruction set (sets.h). The layout is the one of kvstore/compression.py.

// Four two-bit codes lie in a byte, the first at the top: swaps between that and element order.
MG_INLINE uint32_t mirror_pairs(uint32_t x) {
  x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
  return ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
}

// Bit i goes to bit 2i.
MG_INLINE uint32_t spread(uint32_t x) {
#if MG_WIDTH > 16
  return _pdep_u32(x, 0x55555555u);
#else
  x = (x | (x << 8)) & 0x00ff00ffu;
  x = (x | (x << 4)) & 0x0f0f0f0fu;
  x = (x | (x << 2)) & 0x33333333u;
  return (x | (x << 1)) & 0x55555555u;
#endif
}

// Up to 16 elements: gradient into residual; the codes of those that pass a threshold.
MG_INLINE uint32_t quantize_some(const float* grad, float* residual, float t, int count) {
  uint32_t up = 0, down = 0;
  for (int i = 0; i < count; ++i) {
    float r = residual[i] + grad[i];
    if (r >= t) {
      r -= t;
      up |= 1u << i;
    } else if (r <= -t) {
      r += t;
      down |= 1u << i;
    }
    residual[i] = r;
  }
  return mirror_pairs((spread(up | down) << 1) | spread(up));
}

void quantize_two(const float* grad, float* residual, uint32_t* packed, float t, int64_t size) {
  int64_t at = 0;
#if MG_WIDTH == 64
  const __m512 vt = _mm512_set1_ps(t), vn = _mm512_set1_ps(-t);
  for (; at + 16 <= size; at += 16) {
    __m512 r = _mm512_add_ps(_mm512_loadu_ps(residual + at), _mm512_loadu_ps(grad + at));
    const __mmask16 up = _mm512_cmp_ps_mask(r, vt, _CMP_GE_OQ);
    const __mmask16 down = _mm512_cmp_ps_mask(r, vn, _CMP_LE_OQ);
    r = _mm512_mask_sub_ps(r, up, r, vt);
    r = _mm512_mask_add_ps(r, down, r, vt);
    _mm512_storeu_ps(residual + at, r);
    const uint32_t any = static_cast<uint32_t>(up) | static_cast<uint32_t>(down);
    packed[at / 16] = mirror_pairs((spread(any) << 1) | spread(up));
  }
#endif
  for (; at < size; at += 16) {
    const int count = static_cast<int>(std::min<int64_t>(16, size - at));
    packed[at / 16] = quantize_some(grad + at, residual + at, t, count);
  }
}

// 32 elements in four bytes, the first at the top of its byte: 1 (meaning +1) above the threshold,
// else 0 (meaning -1).
void quantize_one(const float* grad, float* residual, uint8_t* packed, float t, int64_t size) {
  for (int64_t at = 0; at < size; at += 8) {
    const int count = static_cast<int>(std::min<int64_t>(8, size - at));
    uint32_t bits = 0;
    for (int i = 0; i < count; ++i) {
      const float r = residual[at + i] + grad[at + i];
      const bool above = r > t;
      bits |= static_cast<uint32_t>(above) << (7 - i);
      residual[at + i] = above ? r - 1.0f : r + 1.0f;
    }
    packed[at / 8] = static_cast<uint8_t>(bits);
  }
}

// Four bytes from anywhere.
MG_INLINE uint32_t word(const char* p) {
  uint32_t x;
  std::memcpy(&x, p, 4);
  return x;
}

// out = or += what the codes mean. `out` begins at a multiple of 16 elements of the packed array.
template <bool add>
void expand_two(const char* packed, float* out, float t, int64_t size) {
  int64_t at = 0;
#if MG_WIDTH == 64
  const __m512 vt = _mm512_set1_ps(t), vn = _mm512_set1_ps(-t);
  for (; at + 16 <= size; at += 16) {
    const uint32_t x = mirror_pairs(word(packed + at / 4));
    const __mmask16 any = static_cast<__mmask16>(_pext_u32(x, 0xaaaaaaaau));
    const __mmask16 up = static_cast<__mmask16>(_pext_u32(x, 0x55555555u));
    const __m512 v = _mm512_maskz_mov_ps(any, _mm512_mask_mov_ps(vn, up, vt));
    _mm512_storeu_ps(out + at, add ? _mm512_add_ps(_mm512_loadu_ps(out + at), v) : v);
  }
#endif
  const float meaning[4] = {0.0f, 0.0f, -t, t};
  for (; at < size; at += 16) {
    const uint32_t x = mirror_pairs(word(packed + at / 4));
    const int count = static_cast<int>(std::min<int64_t>(16, size - at));
    for (int i = 0; i < count; ++i) {
      const float v = meaning[(x >> (2 * i)) & 3];
      out[at + i] = add ? out[at + i] + v : v;
    }
  }
}

template <bool add>
void expand_one(const uint8_t* packed, float* out, int64_t size) {
  for (int64_t at = 0; at < size; ++at) {
    const float v = (packed[at / 8] >> (7 - at % 8)) & 1 ? 1.0f : -1.0f;
    out[at] = add ? out[at] + v : v;
  }
}

template <class T>
void sum_two(const T* a, const T* b, T* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<T>(a[i] + b[i]);
}

// Four at a time, added from left to right as one after the other would be.
template <class T>
void sum_four(const T* a, const T* b, const T* c, const T* d, T* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    out[i] = static_cast<T>(static_cast<T>(static_cast<T>(a[i] + b[i]) + c[i]) + d[i]);
  }
}

template <class T>
void add_to(const T* a, T* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<T>(out[i] + a[i]);
}
