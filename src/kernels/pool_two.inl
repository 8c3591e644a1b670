// Maxima of four vectors and which of them each is; `_pool_two` in minigluon/ops/nn/pool_two.py.
// Included after vec.inl.

// (GCC converts vectors of bytes one by one.)
MG_INLINE MaskOf<float> get_places(const uint8_t* p) {
#if MG_WIDTH == 64
  return (MaskOf<float>)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128((const __m128i*)p));
#elif MG_WIDTH == 32
  return (MaskOf<float>)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
#else
  return MaskOf<float>{p[0], p[1], p[2], p[3]};
#endif
}
MG_INLINE void put_places(uint8_t* p, MaskOf<float> places) {
#if MG_WIDTH == 64
  _mm_storeu_si128((__m128i*)p, _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)places));
#else
  for (int i = 0; i < lanes<float>; ++i) p[i] = static_cast<uint8_t>(places[i]);
#endif
}

// Which lanes something is true for. (Comparisons of vectors become vectors again in GCC's hands.)
#if MG_WIDTH == 64
typedef __mmask16 Lanes;
MG_INLINE VecOf<float> choose(Lanes lanes, VecOf<float> yes, VecOf<float> no) {
  return _mm512_mask_blend_ps(lanes, no, yes);
}
MG_INLINE MaskOf<float> choose(Lanes lanes, MaskOf<float> yes, MaskOf<float> no) {
  return (MaskOf<float>)_mm512_mask_blend_epi32(lanes, (__m512i)no, (__m512i)yes);
}
MG_INLINE Lanes are(MaskOf<float> place, int number) {
  return _mm512_cmpeq_epi32_mask((__m512i)place, _mm512_set1_epi32(number));
}
MG_INLINE Lanes have_bit(MaskOf<float> place, int bit) {
  return _mm512_test_epi32_mask((__m512i)place, _mm512_set1_epi32(bit));
}
MG_INLINE Lanes larger_or_nan(VecOf<float> a, VecOf<float> b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) | _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
#else
typedef MaskOf<float> Lanes;
MG_INLINE VecOf<float> choose(Lanes lanes, VecOf<float> yes, VecOf<float> no) {
  return lanes ? yes : no;
}
MG_INLINE MaskOf<float> choose(Lanes lanes, MaskOf<float> yes, MaskOf<float> no) {
  return lanes ? yes : no;
}
MG_INLINE Lanes are(MaskOf<float> place, int number) { return place == number; }
MG_INLINE Lanes have_bit(MaskOf<float> place, int bit) { return (place & bit) != 0; }
MG_INLINE Lanes larger_or_nan(VecOf<float> a, VecOf<float> b) { return (a > b) | (a != a); }
#endif

// The largest so far, and its number: the first of equal ones, the last nan.
struct Largest {
  VecOf<float> value;
  MaskOf<float> place;

  MG_INLINE explicit Largest(VecOf<float> first) : value(first), place{} {}
  MG_INLINE void meet(VecOf<float> other, int number) {
    const Lanes larger = larger_or_nan(other, value);
    value = choose(larger, other, value);
    place = choose(larger, MaskOf<float>{} + number, place);
  }
};

// What `dy` gives the element of that number in its window.
MG_INLINE VecOf<float> share_of(VecOf<float> dy, MaskOf<float> place, int number) {
  return choose(are(place, number), dy, VecOf<float>{});
}
