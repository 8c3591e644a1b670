// One source, several instruction sets: which of them this machine has.
//
// A file with kernels is compiled once for each set, each time in a namespace of its own:
//
//   #define MG_ISA_FILE "kernels/softmax.inl"
//   #include "kernels/each_set.h"        // base::f, v3::f, v4::f now exist
//   ... MG_PICK(f) ...                   // a pointer to the best of them
//
// `vec.inl` (included by such a file) gives vectors of the width of the set.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "../isa.h"

// Vectors are handed over between functions that are inlined, so their calling rules do not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MG_ISA_SETS 1
#include <immintrin.h>
#else
#define MG_ISA_SETS 0
#endif

namespace mg {

enum class Isa { base, v3, v4 };

// The best set of this machine, or what MINIGLUON_ISA (base, v3, v4) limits it to.
Isa isa();

template <class F>
F pick(F base, F v3, F v4) {
  return isa() == Isa::v4 ? v4 : isa() == Isa::v3 ? v3 : base;
}

}  // namespace mg

#define MG_PICK(...) ::mg::pick(&base::__VA_ARGS__, &v3::__VA_ARGS__, &v4::__VA_ARGS__)
