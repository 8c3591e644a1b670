// Without the GIL for a while, and back to it.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace mg {

// Take the GIL again. Where the interpreter has begun to end, Python unwinds whoever asks for it
// (nothing else is thrown here), which would end the whole process at the first destructor on the
// way: a daemon thread that comes back then stays here for good instead.
inline void come_back(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    for (;;) ::pause();
  }
}

// Without the GIL while it lives.
class Away {
 public:
  Away() : state_(PyEval_SaveThread()) {}
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;
  ~Away() { come_back(state_); }

 private:
  PyThreadState* const state_;
};

}  // namespace mg
