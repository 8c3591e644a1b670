// + - * / on small arrays: the type ArrayBase with these slots, and the same on raw arrays.
#include "eager/rows.h"
#include "kernels/arithmetic.h"
#include "pool.h"

namespace nb = nanobind;

namespace mg {
namespace {

PyTypeObject* array_base = nullptr;
PyObject* general = nullptr;  // (word, lhs, rhs): the general way of Python's operators

// Up to here one loop is over soon (the GIL is held), and faster than a prepared Step
// (docs/decisions.md).
constexpr npy_intp kSmall = 131072;

bool is_small(PyArrayObject* array) {
  return PyArray_TYPE(array) == NPY_FLOAT && is_dense(array) && PyArray_NDIM(array) > 0 &&
         PyArray_SIZE(array) <= kSmall;
}

const float* floats(PyArrayObject* array) {
  return static_cast<const float*>(PyArray_DATA(array));
}

PyObject* like(PyArrayObject* array) {
  if (PyArray_NBYTES(array) < static_cast<npy_intp>(kPooledFrom)) {
    return PyArray_EMPTY(PyArray_NDIM(array), PyArray_DIMS(array), NPY_FLOAT, 0);
  }
  return fresh_array(NPY_FLOAT, PyArray_NDIM(array), PyArray_DIMS(array));
}

// The raw result, or null without an error: not for this path.
PyObject* raw_pair(Arithmetic kind, PyObject* a, PyObject* b) {
  if (!PyArray_CheckExact(a) || !PyArray_CheckExact(b)) return nullptr;
  PyArrayObject *x = as_array(a), *y = as_array(b);
  if (!is_small(x) || !is_small(y) || !same_shape(x, y)) return nullptr;
  PyObject* made = like(x);
  if (made == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  arithmetic(kind, floats(x), floats(y), static_cast<float*>(PyArray_DATA(as_array(made))),
             PyArray_SIZE(x));
  return made;
}

bool plain_number(PyObject* object, double& value) {
  if (PyFloat_Check(object)) {
    value = PyFloat_AS_DOUBLE(object);
    return true;
  }
  if (PyLong_CheckExact(object)) {
    value = PyLong_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    return true;
  }
  return false;
}

PyObject* raw_scalar(Arithmetic kind, PyObject* a, double scalar) {
  if (!PyArray_CheckExact(a) || !is_small(as_array(a))) return nullptr;
  PyObject* made = like(as_array(a));
  if (made == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  arithmetic(kind, floats(as_array(a)), static_cast<float>(scalar),
             static_cast<float*>(PyArray_DATA(as_array(made))), PyArray_SIZE(as_array(a)));
  return made;
}

struct Word {
  PyObject* name;                                // "add"
  PyObject *both, *both_attrs, *right, *left;    // records; attributes of `both`
};
Word words[4];
PyObject* scalar_word = nullptr;

// One result as an NDArray, remembered if need be.
PyObject* finish(PyObject* raw, PyObject* op, PyObject* attrs, PyObject* const* inputs,
                 Py_ssize_t count) {
  PyObject* made = wrap(class_for(inputs, count), raw, slot(inputs[0], kCtx));
  if (made == nullptr || !flags.recording) return made;
  bool tracked = false;
  for (Py_ssize_t i = 0; i < count; ++i) tracked = tracked || is_tracked(inputs[i]);
  if (tracked && !remember(op, attrs, inputs, count, &made, 1, &raw, 1)) {
    Py_DECREF(made);
    return nullptr;
  }
  return made;
}

// Null without an error: not for this path.
PyObject* short_pair(Arithmetic kind, PyObject* a, PyObject* b) {
  if (!is_idle(a) || !is_idle(b) || slot(a, kCtx) != slot(b, kCtx)) return nullptr;
  PyObject* raw = raw_pair(kind, slot(a, kData), slot(b, kData));
  if (raw == nullptr) return nullptr;
  PyObject* inputs[] = {a, b};
  return finish(raw, words[kind].both, words[kind].both_attrs, inputs, 2);
}

PyObject* short_scalar(Arithmetic kind, PyObject* a, PyObject* number, bool reversed) {
  double scalar = 0;
  if (!plain_number(number, scalar) || !is_idle(a)) return nullptr;
  Arithmetic how = kind;
  if (reversed && kind == kSub) how = kReversedSub;
  if (reversed && kind == kDiv) how = kReversedDiv;
  PyObject* raw = raw_scalar(how, slot(a, kData), scalar);
  if (raw == nullptr) return nullptr;
  if (!flags.recording || !is_tracked(a)) return wrap(Py_TYPE(a), raw, slot(a, kCtx));
  PyObject* value = PyFloat_FromDouble(scalar);
  PyObject* attrs = value == nullptr ? nullptr : PyDict_New();
  if (attrs == nullptr || PyDict_SetItem(attrs, scalar_word, value) < 0) {
    Py_XDECREF(value);
    Py_XDECREF(attrs);
    Py_DECREF(raw);
    return nullptr;
  }
  Py_DECREF(value);
  PyObject* made = finish(raw, reversed ? words[kind].left : words[kind].right, attrs, &a, 1);
  Py_DECREF(attrs);
  return made;
}

template <Arithmetic kind>
PyObject* number_slot(PyObject* a, PyObject* b) {
  PyObject* made = nullptr;
  if (is_plain(a)) {
    made = is_plain(b) ? short_pair(kind, a, b) : short_scalar(kind, a, b, false);
  } else if (is_plain(b)) {
    made = short_scalar(kind, b, a, true);
  }
  if (made != nullptr || PyErr_Occurred()) return made;
  if (general == nullptr) Py_RETURN_NOTIMPLEMENTED;
  PyObject* args[] = {words[kind].name, a, b};
  return PyObject_Vectorcall(general, args, 3, nullptr);
}

PyMemberDef array_members[] = {
    MG_MEMBER(4, "_data", kData), MG_MEMBER(4, "_ctx", kCtx), MG_MEMBER(4, "_var", kVar),
    MG_MEMBER(4, "_ag", kAg),
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Array, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

int array_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"data", "ctx"};
  return row_init<4>(self, args, kwargs, names, 2);
}

PyType_Slot array_slots[] = {
    {Py_tp_members, array_members},
    {Py_tp_init, reinterpret_cast<void*>(array_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(row_dealloc<4>)},
    {Py_tp_traverse, reinterpret_cast<void*>(row_traverse<4>)},
    {Py_tp_clear, reinterpret_cast<void*>(row_clear<4>)},
    {Py_nb_add, reinterpret_cast<void*>(number_slot<kAdd>)},
    {Py_nb_subtract, reinterpret_cast<void*>(number_slot<kSub>)},
    {Py_nb_multiply, reinterpret_cast<void*>(number_slot<kMul>)},
    {Py_nb_true_divide, reinterpret_cast<void*>(number_slot<kDiv>)},
    {Py_tp_doc, const_cast<char*>("What an NDArray is made of.")},
    {0, nullptr}};
PyType_Spec array_spec = {"minigluon._core.ArrayBase", sizeof(Array), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                          array_slots};

// -- raw functions for gradient rules -------------------------------------------------------------

// `function(a, b)` on raw arrays by the short path, else by the general function.
template <Arithmetic kind>
PyObject* raw_function(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 2 && names == nullptr) {
    if (PyObject* made = raw_pair(kind, args[0], args[1])) return made;
  }
  return PyObject_Vectorcall(self, args, static_cast<std::size_t>(count), names);
}

// `_sum_like(data, like)`: most often nothing is to be summed.
PyObject* raw_sum_like(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 2 && names == nullptr && PyArray_CheckExact(args[0]) &&
      PyArray_CheckExact(args[1]) && PyArray_TYPE(as_array(args[0])) == PyArray_TYPE(as_array(args[1])) &&
      same_shape(as_array(args[0]), as_array(args[1]))) {
    return Py_NewRef(args[0]);
  }
  return PyObject_Vectorcall(self, args, static_cast<std::size_t>(count), names);
}

// `reshape_like(data, like)` without attributes: the same memory, which no rule writes to.
PyObject* raw_reshape_like(PyObject* self, PyObject* const* args, Py_ssize_t count,
                           PyObject* names) {
  if (count == 2 && names == nullptr && PyArray_CheckExact(args[0]) &&
      PyArray_CheckExact(args[1]) && is_dense(as_array(args[0])) &&
      PyArray_SIZE(as_array(args[0])) == PyArray_SIZE(as_array(args[1]))) {
    PyArrayObject* like = as_array(args[1]);
    PyArray_Dims shape = {PyArray_DIMS(like), PyArray_NDIM(like)};
    return PyArray_Newshape(as_array(args[0]), &shape, NPY_CORDER);
  }
  return PyObject_Vectorcall(self, args, static_cast<std::size_t>(count), names);
}

#define MG_RAW(name, function)                                                     \
  {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),    \
   METH_FASTCALL | METH_KEYWORDS, nullptr}

PyMethodDef raw_methods[] = {
    MG_RAW("elemwise_add", raw_function<kAdd>),  MG_RAW("broadcast_add", raw_function<kAdd>),
    MG_RAW("elemwise_sub", raw_function<kSub>),  MG_RAW("broadcast_sub", raw_function<kSub>),
    MG_RAW("elemwise_mul", raw_function<kMul>),  MG_RAW("broadcast_mul", raw_function<kMul>),
    MG_RAW("elemwise_div", raw_function<kDiv>),  MG_RAW("broadcast_div", raw_function<kDiv>),
    MG_RAW("_sum_like", raw_sum_like),           MG_RAW("reshape_like", raw_reshape_like),
    {nullptr, nullptr, 0, nullptr}};

// raw_functions({name: general function}) -> {name: function with the short path before it}
PyObject* raw_functions(PyObject*, PyObject* general_ones) {
  PyObject* made = PyDict_New();
  for (PyMethodDef* def = raw_methods; made != nullptr && def->ml_name != nullptr; ++def) {
    PyObject* behind = PyDict_GetItemString(general_ones, def->ml_name);
    if (behind == nullptr) continue;
    PyObject* function = PyCFunction_New(def, behind);
    if (function == nullptr || PyDict_SetItemString(made, def->ml_name, function) < 0) {
      Py_XDECREF(function);
      Py_CLEAR(made);
      break;
    }
    Py_DECREF(function);
  }
  return made;
}

// setup(NDArray, device_of, general, [(word, both, attrs, right, left)] in the order of Arithmetic)
PyObject* setup(PyObject*, PyObject* args) {
  PyObject *type, *device, *fallback, *list;
  if (!PyArg_ParseTuple(args, "O!OOO!", &PyType_Type, &type, &device, &fallback, &PyList_Type,
                        &list)) {
    return nullptr;
  }
  if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), array_base) ||
      PyList_GET_SIZE(list) != 4) {
    PyErr_SetString(PyExc_TypeError, "setup: a subclass of ArrayBase and four words are expected");
    return nullptr;
  }
  for (int i = 0; i < 4; ++i) {
    Word& word = words[i];
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "OOOOO", &word.name, &word.both,
                          &word.both_attrs, &word.right, &word.left)) {
      return nullptr;
    }
    for (PyObject* each : {word.name, word.both, word.both_attrs, word.right, word.left}) {
      Py_INCREF(each);
    }
  }
  set_device_of(device);
  Py_XSETREF(general, Py_NewRef(fallback));
  Py_INCREF(type);
  ndarray_type = reinterpret_cast<PyTypeObject*>(type);
  Py_RETURN_NONE;
}

// numpy_class(np.ndarray): a class whose arrays take the short paths, too, and stay of it.
PyObject* numpy_class(PyObject*, PyObject* type) {
  if (!PyType_Check(type) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), array_base)) {
    PyErr_SetString(PyExc_TypeError, "numpy_class: a subclass of ArrayBase is expected");
    return nullptr;
  }
  Py_INCREF(type);
  np_array_type = reinterpret_cast<PyTypeObject*>(type);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"numpy_class", numpy_class, METH_O, "Tell the core the class np.ndarray."},
    {"setup", setup, METH_VARARGS, "Tell the core the class NDArray and the records of + - * /."},
    {"raw_functions", raw_functions, METH_O, "Functions of raw arrays with a short path."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void enter_pairs(PyObject* raw_module) {
  nb::module_ module = nb::borrow<nb::module_>(raw_module);
  scalar_word = PyUnicode_InternFromString("scalar");
  array_base = enter_type(module, array_spec, "ArrayBase");
  PyModule_AddFunctions(raw_module, methods);
}

}  // namespace mg
