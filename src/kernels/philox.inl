// Random numbers by their place alone: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel
// random numbers: as easy as 1, 2, 3", SC'11). Included once for each instruction set; no guard.
//
// Counter c of a run is (low c, high c, low run, high run), the key is the stream's. The four words
// of counters 8 b ... 8 b + 7 are the 32 numbers of block b: number 8 w + i is word w of counter
// 8 b + i. So number n of a run is the same on every machine and with any number of threads.

constexpr int kBlock = 32;

typedef uint64_t Wide __attribute__((vector_size(MG_WIDTH)));  // words, each in the low half of 64 bits
constexpr int kWide = MG_WIDTH / 8;

MG_INLINE Wide all_words(uint64_t x) { return x - Wide{}; }

// Products of the low halves.
MG_INLINE Wide times(Wide a, Wide b) {
#if MG_WIDTH == 64
  return reinterpret_cast<Wide>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif MG_WIDTH == 32
  return reinterpret_cast<Wide>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif MG_ISA_SETS
  return reinterpret_cast<Wide>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & 0xffffffffu) * b;
#endif
}

// The words of counters first, first + 1, ...: word w of them in `word[w]`, above it anything.
MG_INLINE void philox(uint64_t first, Seed seed, Wide* word) {
  Wide place;
  for (int i = 0; i < kWide; ++i) place[i] = first + static_cast<uint64_t>(i);
  Wide c0 = place, c1 = place >> 32, c2 = all_words(seed.run), c3 = all_words(seed.run >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed.key), k1 = static_cast<uint32_t>(seed.key >> 32);
  const Wide m0 = all_words(0xD2511F53u), m1 = all_words(0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    const Wide p0 = times(c0, m0), p1 = times(c2, m1);
    c0 = (p1 >> 32) ^ c1 ^ all_words(k0);
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ all_words(k1);
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

// Bit n - begin of `bits`, from the lowest of the first byte on: whether number n is at least `limit`
// (limit of 2^32 chances: below it). `begin` is a multiple of 32; whole blocks are written.
void at_least(int64_t begin, int64_t blocks, Seed seed, uint64_t limit, uint8_t* bits) {
  const Wide bound = all_words(limit);
  for (int64_t b = 0; b < blocks; ++b) {
    const uint64_t counter = static_cast<uint64_t>(begin / kBlock + b) * 8;
    uint32_t found = 0;
    for (int part = 0; part < 8 / kWide; ++part) {
      Wide word[4];
      philox(counter + static_cast<uint64_t>(part * kWide), seed, word);
      for (int w = 0; w < 4; ++w) {
        const Wide number = word[w] & 0xffffffffu;
#if MG_WIDTH == 64
        const uint32_t hits = _mm512_cmpge_epu64_mask(reinterpret_cast<__m512i>(number),
                                                      reinterpret_cast<__m512i>(bound));
#else
        uint32_t hits = 0;
        for (int i = 0; i < kWide; ++i) hits |= static_cast<uint32_t>(number[i] >= bound[i]) << i;
#endif
        found |= hits << (8 * w + part * kWide);
      }
    }
    for (int byte = 0; byte < 4; ++byte)
      bits[4 * b + byte] = static_cast<uint8_t>(found >> (8 * byte));
  }
}
