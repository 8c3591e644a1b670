// The extension `_onednn`: it only carries kernels. `attach` enters them into _core's registry.
#include <Python.h>

#include "registry.h"

namespace {

PyObject* attach(PyObject*, PyObject* capsule) {
  auto enter = reinterpret_cast<mg::Enter>(PyCapsule_GetPointer(capsule, mg::kEnterCapsule));
  if (enter == nullptr) return nullptr;
  for (const auto& [name, list] : mg::kernels()) {
    for (const mg::KernelEntry& entry : list) enter(name.c_str(), entry.factory, entry.priority);
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
