// Maxima of windows of 2 x 2 side by side with their places, of images in blocks of sixteen samples.
#include "../kernel.h"
#include "../parallel.h"
#include "sets.h"

namespace mg {
namespace {

constexpr int kBlock = 16;

#define MG_ISA_FILE "kernels/pool_two_loops.inl"
#include "kernels/each_set.h"

const auto pool_row_of = MG_PICK(pool_row);
const auto spread_row_of = MG_PICK(spread_row);

// Rows of windows: those of one plane follow each other, and so do their two rows of the image.
class PoolTwo final : public Step {
 public:
  PoolTwo(const Desc& half, bool back)
      : rows_(half.shape[0] * half.shape[1] * half.shape[2]), width_(half.shape[3]), back_(back) {}

  void run(const void* const* in, void* const* out, void*) override {
    const int64_t row = width_ * kBlock;
    parallel_for(rows_, static_cast<double>(row), [&](int64_t begin, int64_t end) {
      for (int64_t y = begin; y < end; ++y) {
        if (back_) {
          spread_row_of(static_cast<const float*>(in[0]) + y * row,
                        static_cast<const uint8_t*>(in[1]) + y * row,
                        static_cast<float*>(out[0]) + 4 * y * row, width_);
        } else {
          pool_row_of(static_cast<const float*>(in[0]) + 4 * y * row,
                      static_cast<float*>(out[0]) + y * row,
                      static_cast<uint8_t*>(out[1]) + y * row, width_);
        }
      }
    });
  }

 private:
  int64_t rows_, width_;
  bool back_;
};

std::unique_ptr<Step> make(const Desc& half, const Desc& places, const Desc& whole, bool back) {
  if (half.dtype != DType::f32 || places.dtype != DType::u8 || whole.dtype != DType::f32 ||
      half.ndim() != 5 || half.shape[4] != kBlock || places.shape != half.shape ||
      half.size() < 1 || whole.size() != 4 * half.size()) {
    return nullptr;
  }
  return std::make_unique<PoolTwo>(half, back);
}

std::unique_ptr<Step> make_pool(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                const Attrs&) {
  return make(out[0], out[1], in[0], false);
}

std::unique_ptr<Step> make_spread(const std::vector<Desc>& in, const std::vector<Desc>& out,
                                  const Attrs&) {
  return make(in[0], in[1], out[0], true);
}

MG_KERNEL("_pool_two", make_pool);
MG_KERNEL("_pool_two_spread", make_spread);

}  // namespace
}  // namespace mg
