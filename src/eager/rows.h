// Types whose objects are a row of references: what is common to them.
#pragma once

#include "eager/eager.h"

#include <nanobind/nanobind.h>
#include <structmember.h>

namespace mg {

template <int N>
int row_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (PyObject* each : reinterpret_cast<Row<N>*>(self)->at) Py_VISIT(each);
  return 0;
}

template <int N>
int row_clear(PyObject* self) {
  for (PyObject*& each : reinterpret_cast<Row<N>*>(self)->at) Py_CLEAR(each);
  return 0;
}

template <int N>
void row_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (reinterpret_cast<Row<N>*>(self)->weak != nullptr) PyObject_ClearWeakRefs(self);
  row_clear<N>(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// __init__ with exactly `given` positional or named arguments; the other members are None.
template <int N>
int row_init(PyObject* self, PyObject* args, PyObject* kwargs, const char* const* names, int given) {
  auto* row = reinterpret_cast<Row<N>*>(self);
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  Py_ssize_t named = 0;
  for (int i = 0; i < given; ++i) {
    PyObject* value = nullptr;
    if (i < count) {
      value = PyTuple_GET_ITEM(args, i);
    } else if (kwargs != nullptr) {
      value = PyDict_GetItemString(kwargs, names[i]);
      ++named;
    }
    if (value == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s: missing argument '%s'", Py_TYPE(self)->tp_name, names[i]);
      return -1;
    }
    Py_XSETREF(row->at[i], Py_NewRef(value));
  }
  if (count > given || (kwargs != nullptr && PyDict_GET_SIZE(kwargs) != named)) {
    PyErr_Format(PyExc_TypeError, "%s: too many arguments", Py_TYPE(self)->tp_name);
    return -1;
  }
  for (int i = given; i < N; ++i) Py_XSETREF(row->at[i], Py_NewRef(Py_None));
  return 0;
}

#define MG_MEMBER(N, name, place) \
  {name, T_OBJECT, offsetof(Row<N>, at) + (place) * sizeof(PyObject*), 0, nullptr}

inline PyTypeObject* enter_type(nanobind::module_& module, PyType_Spec& spec, const char* name) {
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw nanobind::python_error();
  module.attr(name) = nanobind::borrow(type);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace mg
