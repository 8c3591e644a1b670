#include "kernels/sets.h"

#include <cstdlib>
#include <string>

namespace mg {
namespace {

Isa detect() {
  Isa best = Isa::base;
#if MG_ISA_SETS
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512cd");
  best = v4 ? Isa::v4 : v3 ? Isa::v3 : Isa::base;
#endif
  const char* wanted = std::getenv("MINIGLUON_ISA");
  if (wanted == nullptr) return best;
  std::string limit = wanted;
  if (limit == "base") return Isa::base;
  if (limit == "v3" && best == Isa::v4) return Isa::v3;
  return best;
}

}  // namespace

Isa isa() {
  static const Isa found = detect();
  return found;
}

}  // namespace mg
