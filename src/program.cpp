// Running a program: gather pointers, call, next.
#include "program.h"

#include <algorithm>

namespace mg {

void Program::prepare() {
  std::size_t most = 1;
  for (const Call& call : calls) most = std::max(most, call.in.size() + call.out.size());
  gather.resize(most);
}

bool Program::run(void** pointers, Host& host) {
  for (const Call& call : calls) {
    if (call.step) {
      void** in = gather.data();
      void** out = in + call.in.size();
      for (std::size_t i = 0; i < call.in.size(); ++i) in[i] = pointers[root(call.in[i])];
      for (std::size_t i = 0; i < call.out.size(); ++i) {
        out[i] = call.out[i] < 0 ? nullptr : pointers[root(call.out[i])];
      }
      char* arena = static_cast<char*>(pointers[slots.size()]);
      call.step->run(in, out, arena + call.scratch);
    } else if (!host.callback(call, pointers)) {
      return false;
    }
    if (!call.free.empty()) host.release(call.free);
  }
  return true;
}

}  // namespace mg
