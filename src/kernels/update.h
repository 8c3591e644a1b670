// Rules of optimizers as element-wise programs.
#pragma once

#include "kernels/elementwise/program.h"

namespace mg {

// A rule for one weight: inputs are the weight, the gradient and the states; results the new weight
// and the new states, each of which may be written over the old one.
struct UpdateRule {
  elementwise::Program (*program)(const Attrs&);
  int states;
};

// The rule of an update operator; nullptr where it has none.
const UpdateRule* find_update_rule(const std::string& op_name);

}  // namespace mg
