// Rules of optimizers as element-wise programs.
#pragma once

#include "kernels/elementwise/program.h"

namespace mg {

// A rule for one weight: inputs are the weight, the gradient and the states; results the new weight
// and the new states, each of which may be written over the old one.
// Where `direct` is given and takes the attributes, it does the same to float32 in one loop.
struct DirectUpdate {
  void (*run)(float* weight, const float* grad, float* state, int64_t n, const float* numbers);
  float numbers[4];
};

struct UpdateRule {
  elementwise::Program (*program)(const Attrs&);
  int states;
  DirectUpdate (*direct)(const Attrs&) = nullptr;
};

// The rule of an update operator; nullptr where it has none.
const UpdateRule* find_update_rule(const std::string& op_name);

}  // namespace mg
