// Numbers in an array of any type, taken for places: cut to whole ones, then clipped or wrapped.
#pragma once

#include <algorithm>
#include <string>

#include "kernel.h"

namespace mg {

// Number `i` of an index array, as a place in [0, size).
using PlaceOf = int64_t (*)(const void* indices, int64_t i, int64_t size);

template <class T, bool wrap>
int64_t place_of(const void* indices, int64_t i, int64_t size) {
  const T value = static_cast<const T*>(indices)[i];
  if constexpr (wrap) {
    const int64_t rest = static_cast<int64_t>(value) % size;
    return rest < 0 ? rest + size : rest;
  }
  // compared as it came: what does not fit an integer is clipped too (nan to 0)
  if (!(value > T(0))) return 0;
  return value < static_cast<T>(size) ? std::min(static_cast<int64_t>(value), size - 1) : size - 1;
}

template <bool wrap>
PlaceOf place_for(DType dtype) {
  switch (dtype) {
    case DType::f32: return place_of<float, wrap>;
    case DType::f64: return place_of<double, wrap>;
    case DType::i32: return place_of<int32_t, wrap>;
    case DType::i64: return place_of<int64_t, wrap>;
    case DType::u8: return place_of<uint8_t, wrap>;
    case DType::i8: return place_of<int8_t, wrap>;
    default: return nullptr;
  }
}

inline PlaceOf place_for(DType dtype, const Attrs& attrs) {
  const auto mode = attrs.get<std::string>("mode", "clip");
  if (mode == "clip") return place_for<false>(dtype);
  return mode == "wrap" ? place_for<true>(dtype) : nullptr;
}

}  // namespace mg
