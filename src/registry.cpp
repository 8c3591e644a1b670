// The factories by operator name.
#include "registry.h"

#include <algorithm>

namespace mg {

std::map<std::string, std::vector<KernelEntry>>& kernels() {
  static std::map<std::string, std::vector<KernelEntry>> entries;
  return entries;
}

bool enter_kernel(const char* op_name, Factory factory, int priority) {
  auto& list = kernels()[op_name];
  auto place = std::find_if(list.begin(), list.end(),
                            [&](const KernelEntry& other) { return other.priority < priority; });
  list.insert(place, KernelEntry{factory, priority});
  return true;
}

std::unique_ptr<Step> make_step(const std::string& op_name, const std::vector<Desc>& in,
                                const std::vector<Desc>& out, const Attrs& attrs) {
  auto found = kernels().find(op_name);
  if (found == kernels().end()) return nullptr;
  for (const KernelEntry& entry : found->second) {
    if (auto step = entry.factory(in, out, attrs)) return step;
  }
  return nullptr;
}

}  // namespace mg
