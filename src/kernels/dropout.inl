// The loops of dropout. Included once for each instruction set.

#include "kernels/philox.inl"
#include "kernels/vec.inl"

// y = x * scale where the bit is set, x * 0 elsewhere (so nan and infinities stay visible).
void apply_bits(const float* x, const uint8_t* bits, float* y, int64_t n, float scale) {
  int64_t i = 0;
#if MG_WIDTH == 64
  const __m512 factor = _mm512_set1_ps(scale);
  for (; i + 16 <= n; i += 16) {
    uint16_t kept;
    std::memcpy(&kept, bits + i / 8, 2);
    _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(x + i),
                                          _mm512_maskz_mov_ps(kept, factor)));
  }
#elif MG_WIDTH == 32
  const __m256 factor = _mm256_set1_ps(scale);
  const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (; i + 8 <= n; i += 8) {
    const __m256i kept = _mm256_and_si256(_mm256_set1_epi32(bits[i / 8]), each);
    const __m256 factors = _mm256_and_ps(
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(kept, each)), factor);
    _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), factors));
  }
#endif
  for (; i < n; ++i) y[i] = x[i] * ((bits[i / 8] >> (i % 8)) & 1 ? scale : 0.0f);
}

void apply_bits(const double* x, const uint8_t* bits, double* y, int64_t n, double scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * ((bits[i / 8] >> (i % 8)) & 1 ? scale : 0.0);
}
