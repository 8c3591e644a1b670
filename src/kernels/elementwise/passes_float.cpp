// The passes over float tiles, for each instruction set.
#include "kernels/elementwise/passes.h"

#include <algorithm>

#include "kernels/sets.h"

namespace mg::elementwise {
namespace {

#define MG_ISA_FILE "kernels/elementwise/passes.inl"
#include "kernels/each_set.h"

}  // namespace

template <>
Pass<float> find_pass<float>(Word word, unsigned numbers) {
  return MG_PICK(pass_of<float>)(word, numbers);
}
template <>
Copier<float> find_stream<float>() {
  return MG_PICK(stream<float>);
}

}  // namespace mg::elementwise
