// What an eager call makes and remembers: NDArrays, and the objects of the tape.
#include "eager/rows.h"

#include "engine/python.h"

namespace nb = nanobind;

namespace mg {

__thread Flags flags;

namespace {

PyObject* get_flag(PyObject*, void* which) {
  return PyBool_FromLong(which == nullptr ? flags.recording : flags.training);
}

int set_flag(PyObject*, PyObject* value, void* which) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "a flag cannot be deleted");
    return -1;
  }
  const int truth = PyObject_IsTrue(value);
  if (truth < 0) return -1;
  (which == nullptr ? flags.recording : flags.training) = truth != 0;
  return 0;
}

char training_tag;
PyGetSetDef state_getset[] = {
    {"recording", get_flag, set_flag, "Whether calls are remembered.", nullptr},
    {"training", get_flag, set_flag, "Whether Dropout is active.", &training_tag},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot state_slots[] = {
    {Py_tp_getset, state_getset},
    {Py_tp_doc, const_cast<char*>("This thread's flags: recording, training.")},
    {0, nullptr},
};
PyType_Spec state_spec = {"minigluon._core.State", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT,
                          state_slots};

PyMemberDef entry_members[] = {
    MG_MEMBER(7, "op", kOp), MG_MEMBER(7, "attrs", kAttrs), MG_MEMBER(7, "device", kDevice),
    MG_MEMBER(7, "sources", kSources), MG_MEMBER(7, "inputs", kInputs),
    MG_MEMBER(7, "outputs", kOutputs), MG_MEMBER(7, "order", kOrder), {nullptr, 0, 0, 0, nullptr}};

int entry_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"op", "attrs", "device", "sources", "inputs", "outputs"};
  return row_init<7>(self, args, kwargs, names, 6);
}

PyMemberDef leaf_members[] = {
    MG_MEMBER(5, "array", kLeafArray), MG_MEMBER(5, "grad", kLeafGrad),
    MG_MEMBER(5, "req", kLeafReq),     MG_MEMBER(5, "name", kLeafName),
    MG_MEMBER(5, "fresh", kLeafFresh), {nullptr, 0, 0, 0, nullptr}};

// Leaf(array, grad, req, name="")
int leaf_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"array", "grad", "req", "name"};
  const bool named = PyTuple_GET_SIZE(args) > 3 ||
                     (kwargs != nullptr && PyDict_GetItemString(kwargs, "name") != nullptr);
  if (row_init<5>(self, args, kwargs, names, named ? 4 : 3) < 0) return -1;
  auto* row = reinterpret_cast<TapeLeaf*>(self);
  if (!named) Py_XSETREF(row->at[kLeafName], PyUnicode_FromString(""));
  Py_XSETREF(row->at[kLeafFresh], Py_NewRef(Py_False));
  return row->at[kLeafName] == nullptr ? -1 : 0;
}

PyMemberDef output_members[] = {MG_MEMBER(2, "entry", 0), MG_MEMBER(2, "index", 1),
                                {nullptr, 0, 0, 0, nullptr}};

int output_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"entry", "index"};
  return row_init<2>(self, args, kwargs, names, 2);
}

PyObject* device_of = nullptr;    // ctx -> Device
PyObject* last_ctx = nullptr;     // the context that came last
PyObject* last_device = nullptr;  // its device

// A type of the tape: N references and nothing that can be called.
template <int N>
PyTypeObject* enter_row(nb::module_& module, const char* full_name, const char* name,
                        PyMemberDef* members, initproc init, const char* doc) {
  PyType_Slot slots[] = {{Py_tp_members, members},
                         {Py_tp_init, reinterpret_cast<void*>(init)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(row_dealloc<N>)},
                         {Py_tp_traverse, reinterpret_cast<void*>(row_traverse<N>)},
                         {Py_tp_clear, reinterpret_cast<void*>(row_clear<N>)},
                         {Py_tp_doc, const_cast<char*>(doc)},
                         {0, nullptr}};
  PyType_Spec spec = {full_name, sizeof(Row<N>), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  return enter_type(module, spec, name);
}

}  // namespace

PyTypeObject* ndarray_type = nullptr;
PyTypeObject* np_array_type = nullptr;
PyTypeObject* leaf_type = nullptr;
PyTypeObject* entry_type = nullptr;
PyTypeObject* output_type = nullptr;

bool is_idle(PyObject* array) {
  PyObject* var = slot(array, kVar);
  return var == nullptr || var == Py_None || !is_busy(var);
}

PyObject* variable_of(PyObject* array) {
  PyObject*& var = reinterpret_cast<Array*>(array)->at[kVar];
  if (var == nullptr || var == Py_None) Py_XSETREF(var, new_var());
  return var;
}

bool is_unused(PyObject* array) {
  PyObject* var = slot(array, kVar);
  return var == nullptr || var == Py_None || !is_used(var);
}

void set_device_of(PyObject* function) {
  Py_XSETREF(device_of, Py_NewRef(function));
  Py_CLEAR(last_ctx);
  Py_CLEAR(last_device);
}

// Borrowed; null with an error set.
static PyObject* device_for(PyObject* ctx) {
  if (ctx == last_ctx) return last_device;
  PyObject* found = PyObject_CallOneArg(device_of, ctx);
  if (found == nullptr) return nullptr;
  Py_XSETREF(last_ctx, Py_NewRef(ctx));
  Py_XSETREF(last_device, found);
  return found;
}

PyTypeObject* class_for(PyObject* const* inputs, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (Py_TYPE(inputs[i]) == np_array_type) return np_array_type;
  }
  return ndarray_type;
}

PyObject* wrap(PyTypeObject* type, PyObject* data, PyObject* ctx) {
  PyObject* made = type->tp_alloc(type, 0);
  if (made == nullptr) {
    Py_DECREF(data);
    return nullptr;
  }
  auto* row = reinterpret_cast<Array*>(made);
  row->at[kData] = data;
  row->at[kCtx] = Py_NewRef(ctx);
  row->at[kVar] = Py_NewRef(Py_None);
  row->at[kAg] = Py_NewRef(Py_None);
  return made;
}

// What the tape remembers of an input. What a backward has used up is a constant for later calls.
static PyObject* source_of(PyObject* array) {
  PyObject* ag = slot(array, kAg);
  if (ag == nullptr) return Py_None;
  if (Py_TYPE(ag) != output_type) return ag;
  PyObject* entry = reinterpret_cast<TapeOutput*>(ag)->at[0];
  if (entry == nullptr || Py_TYPE(entry) != entry_type) return ag;
  return reinterpret_cast<TapeEntry*>(entry)->at[kInputs] == Py_None ? Py_None : ag;
}

bool is_tracked(PyObject* array) { return source_of(array) != Py_None; }

bool remember(PyObject* op, PyObject* attrs, PyObject* const* inputs, Py_ssize_t count,
              PyObject* const* arrays, Py_ssize_t shown, PyObject* const* raws, Py_ssize_t made) {
  PyObject* device = device_for(slot(inputs[0], kCtx));
  if (device == nullptr) return false;
  PyObject* entry = entry_type->tp_alloc(entry_type, 0);
  if (entry == nullptr) return false;
  auto* row = reinterpret_cast<TapeEntry*>(entry);
  row->at[kOp] = Py_NewRef(op);
  row->at[kAttrs] = Py_NewRef(attrs);
  row->at[kDevice] = Py_NewRef(device);
  PyObject* sources = row->at[kSources] = PyTuple_New(count);
  PyObject* given = row->at[kInputs] = PyTuple_New(count);
  PyObject* outputs = row->at[kOutputs] = PyTuple_New(made);
  bool well = sources != nullptr && given != nullptr && outputs != nullptr;
  for (Py_ssize_t i = 0; well && i < count; ++i) {
    PyTuple_SET_ITEM(sources, i, Py_NewRef(source_of(inputs[i])));
    PyTuple_SET_ITEM(given, i, Py_NewRef(slot(inputs[i], kData)));
  }
  for (Py_ssize_t i = 0; well && i < made; ++i) PyTuple_SET_ITEM(outputs, i, Py_NewRef(raws[i]));
  for (Py_ssize_t i = 0; well && i < shown; ++i) {
    PyObject* output = output_type->tp_alloc(output_type, 0);
    if (output == nullptr) {
      well = false;
      break;
    }
    auto* out = reinterpret_cast<TapeOutput*>(output);
    out->at[0] = Py_NewRef(entry);
    out->at[1] = PyLong_FromSsize_t(i);
    Py_XSETREF(reinterpret_cast<Array*>(arrays[i])->at[kAg], output);
  }
  Py_DECREF(entry);
  return well;
}

void enter_tape(PyObject* raw_module) {
  nb::module_ module = nb::borrow<nb::module_>(raw_module);
  leaf_type = enter_row<5>(module, "minigluon._core.Leaf", "Leaf", leaf_members,
                           leaf_init, "A variable: an array with an attached gradient.");
  entry_type = enter_row<7>(module, "minigluon._core.Entry", "Entry", entry_members,
                            entry_init, "One remembered call.");
  output_type = enter_row<2>(module, "minigluon._core.Output", "Output", output_members,
                             output_init, "Output number `index` of an entry.");
  PyTypeObject* state = enter_type(module, state_spec, "State");
  module.attr("state") = nb::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(state)));
}

}  // namespace mg
