// The factories by operator name. Each extension has a list of its own; _onednn hands its entries
// over to _core when it is loaded.
#pragma once

#include <string>
#include <vector>

#include "kernel.h"

namespace mg {

struct KernelEntry {
  Factory factory;
  int priority;
};

std::map<std::string, std::vector<KernelEntry>>& kernels();

// The first Step that a factory of this operator is willing to make, or nullptr.
std::unique_ptr<Step> make_step(const std::string& op_name, const std::vector<Desc>& in,
                                const std::vector<Desc>& out, const Attrs& attrs);

// What _core gives _onednn in a capsule of this name.
using Enter = bool (*)(const char* op_name, Factory factory, int priority);
constexpr const char* kEnterCapsule = "minigluon._core.enter_kernel";

}  // namespace mg
