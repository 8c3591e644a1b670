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

// What _core gives _onednn in a capsule of this name: its registry, and what of its team
// (parallel.h) kernels use.
struct Core {
  bool (*enter)(const char* op_name, Factory factory, int priority);
  int (*team_size)();
  bool (*team_awake)();
  void (*team_rest)();
  void (*team_run)(void (*part)(void* self, int64_t number), void* self, int64_t parts);
};
constexpr const char* kCoreCapsule = "minigluon._core.core";

}  // namespace mg
