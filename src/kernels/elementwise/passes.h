// The passes of the best instruction set, by word.
#pragma once

#include "kernels/elementwise/program.h"

namespace mg::elementwise {

// One instruction on `n` elements of a tile; an operand that is a number is read at its address.
template <class T>
using Pass = void (*)(const T* a, const T* b, const T* c, T* result, int64_t n);
template <class T>
using Copier = void (*)(const T* from, T* to, int64_t n);

template <class T>
Pass<T> find_pass(Word word, unsigned numbers);
template <class T>
Copier<T> find_stream();

}  // namespace mg::elementwise
