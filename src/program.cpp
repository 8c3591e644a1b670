// Running a program: gather pointers, call, next.
#include "program.h"

#include "parallel.h"

#include <algorithm>
#include <chrono>

namespace mg {

void Program::prepare() {
  std::size_t most = 1;
  for (const Call& call : calls) most = std::max(most, call.in.size() + call.out.size());
  gather.resize(most);
}

namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool Program::run(void** pointers, Host& host, std::size_t first, std::size_t end) {
  // Helpers wake up while the first steps run; for less than this they would come too late.
  const int64_t start = now();
  if (took > kWorthWaking) team_wake();
  int64_t began = start;
  for (std::size_t at = first; at < end; ++at) {
    const Call& call = calls[at];
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
    if (host.watches) host.reached(at);
    if (!spent.empty()) {
      const int64_t ended = now();
      spent[at] += ended - began;
      began = ended;
    }
  }
  if (end - first == calls.size()) took = static_cast<double>(now() - start);
  return true;
}

}  // namespace mg
