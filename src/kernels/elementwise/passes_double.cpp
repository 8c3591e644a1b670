// The passes over double tiles, for each instruction set.
#include "kernels/elementwise/passes.h"

#include <algorithm>

#include "kernels/sets.h"

namespace mg::elementwise {
namespace {

#define MG_ISA_FILE "kernels/elementwise/passes.inl"
#include "kernels/each_set.h"

}  // namespace

template <>
Pass<double> find_pass<double>(Word word, unsigned numbers) {
  return MG_PICK(pass_of<double>)(word, numbers);
}
template <>
Copier<double> find_stream<double>() {
  return MG_PICK(stream<double>);
}

}  // namespace mg::elementwise
