// Maxima of four vectors and which of them each is; `_pool_two` in minigluon/ops/nn/pool_two.py.
// Included after vec.inl.

typedef uint8_t Bytes __attribute__((vector_size(MG_WIDTH / 4)));  // one for each lane

MG_INLINE MaskOf<float> get_places(const uint8_t* p) {
  Bytes bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
  return __builtin_convertvector(bytes, MaskOf<float>);
}
MG_INLINE void put_places(uint8_t* p, MaskOf<float> places) {
  const Bytes bytes = __builtin_convertvector(places, Bytes);
  std::memcpy(p, &bytes, sizeof(bytes));
}

// The largest so far, and its number: the first of equal ones, the last nan.
struct Largest {
  VecOf<float> value;
  MaskOf<float> place;

  MG_INLINE explicit Largest(VecOf<float> first) : value(first), place{} {}
  MG_INLINE void meet(VecOf<float> other, int number) {
    const MaskOf<float> larger = (other > value) | (other != other);
    value = larger ? other : value;
    place = larger ? MaskOf<float>{} + number : place;
  }
};

// What `dy` gives the element of that number in its window.
MG_INLINE VecOf<float> share_of(VecOf<float> dy, MaskOf<float> place, int number) {
  return place == number ? dy : VecOf<float>{};
}
