// What Python sees of the core: steps, the pool's figures, and what other files enter themselves.
#define MG_IMPORTS_NUMPY
#include "numpy.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <omp.h>
#include <pthread.h>

#include "engine/python.h"
#include "given.h"
#include "parallel.h"
#include "pystep.h"
#include "random.h"
#include "registry.h"

namespace nb = nanobind;
using namespace mg;

namespace {

void* pointer_of(nb::handle array, const Desc& desc, const char* what) {
  if (!PyArray_Check(array.ptr())) throw nb::type_error("Step: expected NumPy arrays");
  PyArrayObject* raw = as_array(array.ptr());
  if (!is_dense(raw) || dtype_of(PyArray_TYPE(raw)) != static_cast<int>(desc.dtype) ||
      PyArray_SIZE(raw) != desc.size()) {
    throw nb::value_error(
        (std::string("Step: an ") + what + " is not the dense array the step is made for").c_str());
  }
  return PyArray_DATA(raw);
}

std::vector<void*> pointers_of(nb::sequence arrays, const std::vector<Desc>& descs,
                               const char* what) {
  if (nb::len(arrays) != descs.size()) {
    throw nb::value_error((std::string("Step: the number of ") + what + "s is not that of the step")
                              .c_str());
  }
  std::vector<void*> found;
  for (std::size_t i = 0; i < descs.size(); ++i) {
    found.push_back(pointer_of(nb::object(arrays[i]), descs[i], what));
  }
  return found;
}

void step_run(PyStep& self, nb::sequence inputs, nb::sequence outputs) {
  std::vector<void*> from = pointers_of(inputs, self.in, "input");
  std::vector<void*> to = pointers_of(outputs, self.out, "output");
  self.run(from.data(), to.data());
}

// Fresh outputs for these inputs.
nb::object step_call(PyStep& self, nb::sequence inputs) {
  std::vector<void*> from = pointers_of(inputs, self.in, "input"), to;
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(self.out.size())));
  for (std::size_t i = 0; i < self.out.size(); ++i) {
    PyObject* array = self.fresh_output(i);
    if (array == nullptr) throw nb::python_error();
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), array);
    to.push_back(PyArray_DATA(as_array(array)));
  }
  self.run(from.data(), to.data());
  return made;
}

std::shared_ptr<PyStep> py_make_step(const std::string& name, nb::handle in, nb::handle out,
                                     nb::dict attrs) {
  if (kernels().find(name) == kernels().end()) return nullptr;
  for (nb::handle list : {in, out}) {
    for (nb::handle each : list) {
      if (!is_native(nb::cast<std::string>(each[0]))) return nullptr;
    }
  }
  Attrs given;
  if (!attrs_of(attrs.ptr(), given)) return nullptr;
  auto made = std::make_shared<PyStep>();
  made->name = name;
  made->in = descs_of(in);
  made->out = descs_of(out);
  made->step = make_step(name, made->in, made->out, given);
  return made->step ? made : nullptr;
}

const Core kCore = {&enter_kernel, &team_size, &team_awake, &team_rest, &team_run};

std::string isa() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3")) return "x86-64-v3";
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "generic";
#endif
}

}  // namespace

Source& mg::source_of_device(PyObject* device) {
  return *nb::cast<Source*>(nb::handle(device).attr("source"));
}

NB_MODULE(_core, m) {
  if (_import_array() < 0) throw nb::python_error();
  // The threads of the pool do not exist in a forked child: there one thread does the work.
  pthread_atfork(nullptr, nullptr, [] { omp_set_num_threads(1); });
  nb::set_leak_warnings(false);  // what lives as long as the process is no leak
  m.doc() = "The native core: prepared steps, programs of them, pooled memory.";
  nb::class_<PyStep>(m, "Step", "One prepared call of an operator.")
      .def("run", &step_run, nb::arg("inputs"), nb::arg("outputs"),
           "Compute into given dense arrays.")
      .def("__call__", &step_call, nb::arg("inputs"), "Compute; a tuple of fresh arrays.")
      .def("seed", [](PyStep& self, uint64_t key, uint64_t run) { self.step->seed = {key, run}; },
           nb::arg("key"), nb::arg("run"), "What the next run draws from.")
      .def("scratch", [](const PyStep& self) { return self.step->scratch(); })
      .def("inplace", [](const PyStep& self, int input, int output) {
        return self.step->inplace(input, output);
      });
  nb::class_<Source>(m, "Source", "A device's random stream for native steps.")
      .def(nb::init<uint64_t>(), nb::arg("key"))
      .def("next", [](Source& self) {
        const Seed seed = self.next();
        return nb::make_tuple(seed.key, seed.run);
      }, "(key, run) of one run that draws.");
  m.def("make_step", &py_make_step, nb::arg("op_name"), nb::arg("inputs"), nb::arg("outputs"),
        nb::arg("attrs"), nb::sig("def make_step(op_name: str, inputs: list, outputs: list, "
                                  "attrs: dict) -> Step | None"),
        "A Step for (dtype, shape) descriptions, or None.");
  m.def("kernels", [] {
    nb::dict made;
    for (const auto& [name, list] : kernels()) made[name.c_str()] = list.size();
    return made;
  });
  m.def("isa", &isa);
  m.def("threads", &omp_get_max_threads);
  m.def("set_threads", [](int threads) {
    omp_set_num_threads(threads);
    team_resize(threads);
  });
  m.def("pool_stats", [] {
    const PoolStats stats = pool_stats();
    nb::dict made;
    made["used"] = stats.used;
    made["idle"] = stats.idle;
    made["limit"] = stats.limit;
    made["fresh"] = stats.fresh;
    made["reused"] = stats.reused;
    return made;
  });
  m.def("pool_limit", &pool_limit, nb::arg("bytes"));
  m.attr("core") = nb::steal(PyCapsule_New(const_cast<Core*>(&kCore), kCoreCapsule, nullptr));
  enter_memory(m.ptr());
  enter_pairs(m.ptr());
  enter_tape(m.ptr());
  enter_steps(m.ptr());
  enter_kvstore(m.ptr());
  enter_walk(m.ptr());
  enter_programs(m.ptr());
  enter_engine(m.ptr());
  enter_updates(m.ptr());
}
