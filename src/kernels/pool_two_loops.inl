// The loops of pool_two.cpp, for one instruction set. Included several times: no include guard.
#include "kernels/vec.inl"
#include "kernels/pool_two.inl"

// A row of `width` windows, whose two rows of the image follow each other.
void pool_row(const float* image, float* out, uint8_t* place, int64_t width) {
  const int64_t row = 2 * width * kBlock;
  for (int64_t x = 0; x < width; ++x, image += 2 * kBlock, out += kBlock, place += kBlock) {
    for (int i = 0; i < kBlock; i += lanes<float>) {
      Largest best(load<float>(image + i));
      best.meet(load<float>(image + kBlock + i), 1);
      best.meet(load<float>(image + row + i), 2);
      best.meet(load<float>(image + row + kBlock + i), 3);
      store<float>(out + i, best.value);
      put_places(place + i, best.place);
    }
  }
}

void spread_row(const float* dy, const uint8_t* place, float* image, int64_t width) {
  const int64_t row = 2 * width * kBlock;
  for (int64_t x = 0; x < width; ++x, image += 2 * kBlock, dy += kBlock, place += kBlock) {
    for (int i = 0; i < kBlock; i += lanes<float>) {
      const VecOf<float> grad = load<float>(dy + i);
      const MaskOf<float> where = get_places(place + i);
      store<float>(image + i, share_of(grad, where, 0));
      store<float>(image + kBlock + i, share_of(grad, where, 1));
      store<float>(image + row + i, share_of(grad, where, 2));
      store<float>(image + row + kBlock + i, share_of(grad, where, 3));
    }
  }
}
