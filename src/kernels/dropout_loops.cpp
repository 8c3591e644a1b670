// The loops of dropout, without the Step: also for kernels that need dropout inside.
#include "kernels/dropout.h"

#include <cmath>
#include <cstring>

#include "kernels/sets.h"

namespace mg {
namespace {

#define MG_ISA_FILE "kernels/dropout.inl"
#include "kernels/each_set.h"

template <class T>
void apply(const T* x, const uint8_t* mask, T* y, int64_t begin, int64_t end, double p) {
  using Loop = void (*)(const T*, const uint8_t*, T*, int64_t, T);
  static const Loop loop = pick<Loop>(&base::apply_bits, &v3::apply_bits, &v4::apply_bits);
  loop(x + begin, mask + begin / 8, y + begin, end - begin, static_cast<T>(1 / (1 - p)));
}

}  // namespace

void draw_mask(Seed seed, double p, int64_t begin, int64_t end, uint8_t* mask) {
  static const auto draw = MG_PICK(at_least);
  const auto limit = static_cast<uint64_t>(std::llround(std::ldexp(p, 32)));
  const int64_t whole = (end - begin) / 32;
  draw(begin, whole, seed, limit, mask + begin / 8);
  const int64_t at = begin + whole * 32;
  if (at == end) return;
  uint8_t last[4];
  draw(at, 1, seed, limit, last);
  if ((end - at) % 8 != 0) {
    uint8_t& byte = last[(end - at) / 8];
    byte = static_cast<uint8_t>(byte & ((1 << ((end - at) % 8)) - 1));
  }
  std::memcpy(mask + at / 8, last, static_cast<size_t>(mask_bytes(end - at)));
}

void apply_mask(const float* x, const uint8_t* mask, float* y, int64_t begin, int64_t end,
                double p) {
  apply(x, mask, y, begin, end, p);
}
void apply_mask(const double* x, const uint8_t* mask, double* y, int64_t begin, int64_t end,
                double p) {
  apply(x, mask, y, begin, end, p);
}

}  // namespace mg
