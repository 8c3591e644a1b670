// Rows of numbers as softmax.inl goes over them.
#pragma once

#include <cstdint>

namespace mg {

// `outer` times `inner` rows of `count` numbers, which are `inner` apart.
struct Rows {
  int64_t outer = 1, count = 1, inner = 1;
};

using RowPass = void (*)(const Rows& rows, const void* const* in, void* const* out, int64_t begin,
                         int64_t end);

}  // namespace mg
