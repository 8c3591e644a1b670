// The extension `_onednn`: it only carries kernels. `attach` enters them into _core's registry, and
// they share out work to _core's team.
#include <Python.h>

#include "parallel.h"
#include "registry.h"

namespace {

const mg::Core* core = nullptr;

}  // namespace

int mg::team_size() { return core->team_size(); }
bool mg::team_awake() { return core->team_awake(); }
void mg::team_rest() { core->team_rest(); }
void mg::team_run(void (*part)(void* self, int64_t number), void* self, int64_t parts) {
  core->team_run(part, self, parts);
}

namespace {

PyObject* attach(PyObject*, PyObject* capsule) {
  core = static_cast<const mg::Core*>(PyCapsule_GetPointer(capsule, mg::kCoreCapsule));
  if (core == nullptr) return nullptr;
  for (const auto& [name, list] : mg::kernels()) {
    for (const mg::KernelEntry& entry : list) {
      core->enter(name.c_str(), entry.factory, entry.priority);
    }
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"attach", attach, METH_O, "Enter this extension's kernels through _core's capsule."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_onednn", "Kernels that call oneDNN.", -1, methods,
    nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__onednn() { return PyModule_Create(&module); }
