// The loops of conv_heavy.cpp, for one instruction set. Included several times: no include guard.
#include "kernels/vec.inl"

namespace heavy {

typedef VecOf<float> Lane;
constexpr int kLanes = lanes<float>;

// Sums of MR filters at NR vectors of positions. The weights of so many filters lie far apart:
// a stretch of each is copied to where one pointer reaches them all.
template <int MR, int NR>
void sums(const float* weight, int64_t filters, int64_t taps, const float* columns,
          int64_t pitch, float* out) {
  constexpr int kStretch = 64;
  alignas(64) float near[MR * kStretch];
  Lane sum[MR][NR] = {};
  for (int64_t k0 = 0; k0 < taps; k0 += kStretch) {
    const int64_t count = std::min<int64_t>(kStretch, taps - k0);
    for (int64_t i = 0; i < MR; ++i) {
      const float* from = weight + std::min(i, filters - 1) * taps + k0;
      if (count == kStretch) {
        for (int k = 0; k < kStretch; k += kLanes) {
          store<float>(near + i * kStretch + k, load<float>(from + k));
          __builtin_prefetch(from + k + 2 * kStretch);
        }
      } else {
        std::memcpy(near + i * kStretch, from, count * sizeof(float));
      }
    }
    const float* column = columns + k0 * pitch;
    for (int64_t k = 0; k < count; ++k, column += pitch) {
      Lane value[NR];
      for (int j = 0; j < NR; ++j) value[j] = load<float>(column + j * kLanes);
      for (int i = 0; i < MR; ++i) {
        const Lane one = all<float>(near[i * kStretch + k]);
        for (int j = 0; j < NR; ++j) sum[i][j] += one * value[j];
      }
    }
  }
  for (int i = 0; i < MR; ++i) {
    for (int j = 0; j < NR; ++j) store<float>(out + i * kTile + j * kLanes, sum[i][j]);
  }
}

// Up to kFilters filters at up to kTile positions, a multiple of 16 of them; the sum of a filter
// at a position goes to out[filter * kTile + position].
void tile(const float* weight, int64_t filters, int64_t taps, const float* columns, int64_t pitch,
          int64_t positions, float* out) {
  auto rows = [&](auto pass, int64_t height, int64_t at) {
    for (int64_t f = 0; f < filters; f += height) {
      pass(weight + f * taps, filters - f, taps, columns + at, pitch, out + f * kTile + at);
    }
  };
  int64_t at = 0;
  if constexpr (MG_WIDTH == 64) {
    for (; at + 64 <= positions; at += 64) rows(sums<4, 4>, 4, at);
    for (; at + 32 <= positions; at += 32) rows(sums<8, 2>, 8, at);
    for (; at < positions; at += 16) rows(sums<16, 1>, 16, at);
  } else {
    for (; at < positions; at += 2 * kLanes) rows(sums<4, 2>, 4, at);
  }
}

}  // namespace heavy
