// A Step as Python holds it.
#pragma once

#include "numpy.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <mutex>
#include <string>

#include "away.h"
#include "pool.h"

namespace mg {

struct PyStep {
  std::string name;  // of the operator
  std::shared_ptr<Step> step;
  std::vector<Desc> in, out;
  std::mutex running;  // runs of one Step never overlap: it may keep state

  // The GIL is held, and let go where the work is worth it.
  void run(void** from, void** to) {
    if (!running.try_lock()) {
      Away away;
      running.lock();
    }
    std::lock_guard<std::mutex> hold(running, std::adopt_lock);
    run_held(from, to);
  }

  // The same for who holds `running` already.
  void run_held(void** from, void** to) {
    Arena scratch(step->scratch());
    int64_t most = 0;
    for (const Desc& desc : in) most = std::max(most, desc.size());
    for (const Desc& desc : out) most = std::max(most, desc.size());
    if (most < 4096) {
      step->run(from, to, scratch.data());
      return;
    }
    Away away;
    step->run(from, to, scratch.data());
  }

  PyObject* fresh_output(std::size_t i) const {
    return fresh_array(numpy_type(out[i].dtype), out[i].ndim(),
                       reinterpret_cast<const npy_intp*>(out[i].shape.data()));
  }
};

class Source;
// The random stream of a Device, for Steps that draw.
Source& source_of_device(PyObject* device);

}  // namespace mg
