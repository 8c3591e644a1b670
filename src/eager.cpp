// The short path of eager calls: NDArray's memory layout, + - * / on small arrays, prepared Steps
// of an operator by the types and shapes of its inputs, and what recording writes down.
//
// Everything here answers "not for me" (NotImplemented, None) for whatever is unusual; the Python
// side then does the same by the general way, so this file decides speed and never meaning.
#include "eager.h"

#include <structmember.h>

#include <cstring>
#include <unordered_map>

#include "engine/python.h"
#include "given.h"
#include "isa.h"
#include "pystep.h"
#include "random.h"

namespace nb = nanobind;

namespace mg {

// -- this thread's flags --------------------------------------------------------------------------

namespace {

struct Flags {
  bool recording = false, training = false;
};
thread_local Flags flags;

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

// -- objects made of a few references -------------------------------------------------------------

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

PyMemberDef array_members[] = {
    MG_MEMBER(4, "_data", kData), MG_MEMBER(4, "_ctx", kCtx), MG_MEMBER(4, "_var", kVar),
    MG_MEMBER(4, "_ag", kAg),
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Array, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

int array_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"data", "ctx"};
  return row_init<4>(self, args, kwargs, names, 2);
}

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

PyTypeObject* array_base = nullptr;

// -- what Python has told us (setup) --------------------------------------------------------------

PyObject* device_of = nullptr;         // ctx -> Device
PyObject* general = nullptr;           // (word, lhs, rhs): the general way of Python's operators
PyObject* last_ctx = nullptr;          // the device of the context that came last
PyObject* last_device = nullptr;

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

namespace {

// Borrowed; null with an error set.
PyObject* device_for(PyObject* ctx) {
  if (ctx == last_ctx) return last_device;
  PyObject* found = PyObject_CallOneArg(device_of, ctx);
  if (found == nullptr) return nullptr;
  Py_XSETREF(last_ctx, Py_NewRef(ctx));
  Py_XSETREF(last_device, found);
  return found;
}

// The class of what is computed of these: NumPy's if one of them is.
PyTypeObject* class_for(PyObject* const* inputs, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (Py_TYPE(inputs[i]) == np_array_type) return np_array_type;
  }
  return ndarray_type;
}

// Steals `data`.
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
PyObject* source_of(PyObject* array) {
  PyObject* ag = slot(array, kAg);
  if (ag == nullptr) return Py_None;
  if (Py_TYPE(ag) != output_type) return ag;
  PyObject* entry = reinterpret_cast<TapeOutput*>(ag)->at[0];
  if (entry == nullptr || Py_TYPE(entry) != entry_type) return ag;
  return reinterpret_cast<TapeEntry*>(entry)->at[kInputs] == Py_None ? Py_None : ag;
}

bool is_tracked(PyObject* array) { return source_of(array) != Py_None; }

// Hang Output(entry, i) on `arrays`; `raws` are all outputs. Takes borrowed references.
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

// -- + - * / on small float32 arrays --------------------------------------------------------------

constexpr npy_intp kSmall = 8192;

enum Arithmetic { kAdd, kSub, kMul, kDiv, kReversedSub, kReversedDiv };

#define MG_LOOP(expression) \
  for (npy_intp i = 0; i < n; ++i) out[i] = (expression)

void compute(int kind, const float* a, const float* b, float* out, npy_intp n) {
  switch (kind) {
    case kAdd: MG_LOOP(a[i] + b[i]); break;
    case kSub: MG_LOOP(a[i] - b[i]); break;
    case kMul: MG_LOOP(a[i] * b[i]); break;
    default: MG_LOOP(a[i] / b[i]);
  }
}

void compute(int kind, const float* a, float s, float* out, npy_intp n) {
  switch (kind) {
    case kAdd: MG_LOOP(a[i] + s); break;
    case kSub: MG_LOOP(a[i] - s); break;
    case kMul: MG_LOOP(a[i] * s); break;
    case kDiv: MG_LOOP(a[i] / s); break;
    case kReversedSub: MG_LOOP(s - a[i]); break;
    default: MG_LOOP(s / a[i]);
  }
}

bool is_small(PyArrayObject* array) {
  return PyArray_TYPE(array) == NPY_FLOAT && is_dense(array) && PyArray_NDIM(array) > 0 &&
         PyArray_SIZE(array) <= kSmall;
}

const float* floats(PyArrayObject* array) {
  return static_cast<const float*>(PyArray_DATA(array));
}

PyObject* like(PyArrayObject* array) {
  return PyArray_EMPTY(PyArray_NDIM(array), PyArray_DIMS(array), NPY_FLOAT, 0);
}

// The raw result, or null without an error: not for this path.
PyObject* raw_pair(int kind, PyObject* a, PyObject* b) {
  if (!PyArray_CheckExact(a) || !PyArray_CheckExact(b)) return nullptr;
  PyArrayObject *x = as_array(a), *y = as_array(b);
  if (!is_small(x) || !is_small(y) || !same_shape(x, y)) return nullptr;
  PyObject* made = like(x);
  if (made == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  compute(kind, floats(x), floats(y), static_cast<float*>(PyArray_DATA(as_array(made))),
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

PyObject* raw_scalar(int kind, PyObject* a, double scalar) {
  if (!PyArray_CheckExact(a) || !is_small(as_array(a))) return nullptr;
  PyObject* made = like(as_array(a));
  if (made == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  compute(kind, floats(as_array(a)), static_cast<float>(scalar),
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
PyObject* short_pair(int kind, PyObject* a, PyObject* b) {
  if (!is_idle(a) || !is_idle(b) || slot(a, kCtx) != slot(b, kCtx)) return nullptr;
  PyObject* raw = raw_pair(kind, slot(a, kData), slot(b, kData));
  if (raw == nullptr) return nullptr;
  PyObject* inputs[] = {a, b};
  return finish(raw, words[kind].both, words[kind].both_attrs, inputs, 2);
}

PyObject* short_scalar(int kind, PyObject* a, PyObject* number, bool reversed) {
  double scalar = 0;
  if (!plain_number(number, scalar) || !is_idle(a)) return nullptr;
  int how = kind;
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

template <int kind>
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

// -- prepared Steps of one operator ---------------------------------------------------------------

// The Steps of an operator by the types and shapes of its inputs and by its attributes.
class Eager {
 public:
  // `make(arrays, attrs)`: a Step or None. `visible`: how many outputs a user sees; 0: ask
  // nobody, arrays only. `least`: inputs with fewer elements are left to the body.
  Eager(nb::object op, nb::object make, Py_ssize_t visible, npy_intp least)
      : op(std::move(op)), make(std::move(make)), visible_(visible), least_(least) {}

  // Raw arrays in, a tuple of fresh raw arrays out; None: not for this path.
  // `device` hands out random numbers; None will do where nothing is drawn.
  nb::object raw(nb::handle arrays, nb::handle attrs, nb::handle device) {
    Sequence given(arrays);
    Held step = given.well ? find(given.items, given.count, attrs.ptr()) : Held();
    if (!step || !seed(*step, device.ptr())) return nb::none();
    PyObject* outputs[kMost];
    run(*step, given.items, outputs);
    const auto made = static_cast<Py_ssize_t>(step->out.size());
    PyObject* results = PyTuple_New(made);
    for (Py_ssize_t i = 0; i < made; ++i) PyTuple_SET_ITEM(results, i, outputs[i]);
    return nb::steal(results);
  }

  // Raw arrays in, results into given raw arrays; false: not for this path.
  bool into(nb::handle arrays, nb::handle attrs, nb::handle targets) {
    Sequence given(arrays), to(targets);
    if (!given.well || !to.well) return false;
    Held step = find(given.items, given.count, attrs.ptr());
    if (!step || step->step->draws() || static_cast<std::size_t>(to.count) != step->out.size()) {
      return false;
    }
    void *from[kMost], *out[kMost];
    for (Py_ssize_t i = 0; i < given.count; ++i) {
      from[i] = PyArray_DATA(as_array(given.items[i]));
    }
    for (Py_ssize_t k = 0; k < to.count; ++k) {
      if (!PyArray_CheckExact(to.items[k]) || !fits(as_array(to.items[k]), step->out[k])) {
        return false;
      }
      out[k] = PyArray_DATA(as_array(to.items[k]));
      const char* begin = static_cast<const char*>(out[k]);
      for (Py_ssize_t i = 0; i < given.count; ++i) {
        const char* other = static_cast<const char*>(from[i]);
        const bool apart = other + step->in[i].bytes() <= begin ||
                           begin + step->out[k].bytes() <= other;
        const bool same = other == begin && step->in[i].bytes() == step->out[k].bytes();
        if (!apart && !(same && step->step->inplace(static_cast<int>(i), static_cast<int>(k)))) {
          return false;
        }
      }
    }
    step->run_held(from, out);
    return true;
  }

  // NDArrays in, NDArrays out, remembered if need be; None: not for this path.
  nb::object call(nb::handle arrays, nb::handle attrs) {
    Sequence given(arrays);
    if (!given.well || given.count == 0 || visible_ == 0) return nb::none();
    PyObject* raws[kMost];
    Kept kept(raws);  // while the GIL is let go, a backward may give the NDArray another array
    bool tracked = false;
    for (Py_ssize_t i = 0; i < given.count; ++i) {
      PyObject* each = given.items[i];
      if (!is_plain(each) || slot(each, kCtx) != slot(given.items[0], kCtx) ||
          !is_unused(each)) {  // some operators write to inputs
        return nb::none();
      }
      raws[i] = Py_NewRef(slot(each, kData));
      kept.count = i + 1;
      tracked = tracked || is_tracked(each);
    }
    Held step = find(raws, given.count, attrs.ptr());
    if (!step || !seed(*step, nullptr)) return nb::none();
    PyObject* outputs[kMost];
    run(*step, raws, outputs);
    const auto made = static_cast<Py_ssize_t>(step->out.size());
    PyObject* shown[kMost] = {};
    PyTypeObject* type = class_for(given.items, given.count);
    bool well = true;
    for (Py_ssize_t i = 0; i < made; ++i) {
      if (i < visible_) {
        shown[i] = wrap(type, Py_NewRef(outputs[i]), slot(given.items[0], kCtx));
        well = well && shown[i] != nullptr;
      }
    }
    if (well && tracked && flags.recording) {
      well = remember(op.ptr(), attrs.ptr(), given.items, given.count, shown, visible_, outputs,
                      made);
    }
    for (Py_ssize_t i = 0; i < made; ++i) Py_DECREF(outputs[i]);
    nb::object result;
    if (visible_ == 1) {
      result = nb::steal(shown[0]);
    } else {
      result = nb::steal(PyList_New(visible_));
      for (Py_ssize_t i = 0; i < visible_; ++i) PyList_SET_ITEM(result.ptr(), i, shown[i]);
    }
    if (!well) throw nb::python_error();
    return result;
  }

  std::size_t size() const { return known_.size(); }

  nb::object op, make;

 private:
  static constexpr Py_ssize_t kMost = 32;  // arrays of one call
  static constexpr std::size_t kKept = 256;

  struct Sequence {
    explicit Sequence(nb::handle from) : fast(nb::steal(PySequence_Fast(from.ptr(), "arrays"))) {
      if (!fast.is_valid()) throw nb::python_error();
      items = PySequence_Fast_ITEMS(fast.ptr());
      count = PySequence_Fast_GET_SIZE(fast.ptr());
      well = count <= kMost;
    }
    nb::object fast;
    PyObject** items;
    Py_ssize_t count;
    bool well;
  };

  // References that a call owns.
  struct Kept {
    explicit Kept(PyObject* const* items) : items(items) {}
    Kept(const Kept&) = delete;
    ~Kept() {
      for (Py_ssize_t i = 0; i < count; ++i) Py_DECREF(items[i]);
    }
    PyObject* const* items;
    Py_ssize_t count = 0;
  };

  struct Known {
    nb::object attrs;
    // More than one where threads met; none: no kernel takes such a call.
    std::vector<std::shared_ptr<PyStep>> steps;
  };

  // A Step that nobody else runs while this lives.
  class Held {
   public:
    Held() = default;
    explicit Held(std::shared_ptr<PyStep> locked) : step_(std::move(locked)) {}
    Held(Held&&) = default;
    ~Held() {
      if (step_) step_->running.unlock();
    }
    explicit operator bool() const { return step_ != nullptr; }
    PyStep* operator->() const { return step_.get(); }
    PyStep& operator*() const { return *step_; }

   private:
    std::shared_ptr<PyStep> step_;
  };

  static bool fits(PyArrayObject* array, const Desc& desc) {
    bool same = is_dense(array) && PyArray_ISWRITEABLE(array) &&
                dtype_of(PyArray_TYPE(array)) == static_cast<int>(desc.dtype) &&
                PyArray_NDIM(array) == desc.ndim();
    for (int i = 0; same && i < desc.ndim(); ++i) same = PyArray_DIM(array, i) == desc.shape[i];
    return same;
  }

  // Give a Step that draws its part of the device's stream; false: it is not known which device.
  static bool seed(PyStep& step, PyObject* device) {
    if (!step.step->draws()) return true;
    if (device == nullptr || device == Py_None) return false;
    step.step->seed = source_of_device(device).next();
    return true;
  }

  void run(PyStep& step, PyObject* const* raws, PyObject** outputs) const {
    void *from[kMost], *to[kMost];
    for (std::size_t i = 0; i < step.in.size(); ++i) from[i] = PyArray_DATA(as_array(raws[i]));
    for (std::size_t i = 0; i < step.out.size(); ++i) {
      outputs[i] = step.fresh_output(i);
      if (outputs[i] == nullptr) {
        while (i-- > 0) Py_DECREF(outputs[i]);
        throw nb::python_error();
      }
      to[i] = PyArray_DATA(as_array(outputs[i]));
    }
    step.run_held(from, to);
  }

  Held find(PyObject* const* raws, Py_ssize_t count, PyObject* attrs) {
    int64_t signature[256];
    std::size_t length = 0;
    npy_intp most = 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!PyArray_CheckExact(raws[i])) return Held();
      PyArrayObject* array = as_array(raws[i]);
      const int ndim = PyArray_NDIM(array);
      if (!is_dense(array) || ndim == 0 || length + ndim + 1 > 256) return Held();
      signature[length++] = PyArray_TYPE(array) * 64 + ndim;
      npy_intp size = 1;
      for (int d = 0; d < ndim; ++d) {
        signature[length++] = PyArray_DIM(array, d);
        size *= PyArray_DIM(array, d);
      }
      if (size == 0) return Held();
      most = std::max(most, size);
    }
    if (most < least_) return Held();
    key_.assign(reinterpret_cast<const char*>(signature), length * sizeof(int64_t));
    auto [from, to] = known_.equal_range(key_);
    std::shared_ptr<Known> other;
    for (auto it = from; it != to; ++it) {
      if (it->second->attrs.ptr() == attrs) return hold(it->second, raws, count);
      const int same = PyObject_RichCompareBool(it->second->attrs.ptr(), attrs, Py_EQ);
      if (same < 0) {
        PyErr_Clear();
        return Held();
      }
      if (same) return hold(it->second, raws, count);
      other = it->second;
    }
    if (other && !other->steps.empty() && other->steps[0]->running.try_lock()) {
      Held first(other->steps[0]);
      Attrs given;
      if (attrs_of(attrs, given) && first->step->adjust(given)) {
        other->attrs = nb::steal(PyDict_Copy(attrs));
        other->steps.resize(1);
        return first;
      }
    }
    std::string key = key_;
    auto fresh = std::make_shared<Known>(Known{nb::borrow(attrs), {}});
    if (auto made = prepare(raws, count, attrs)) fresh->steps.push_back(std::move(made));
    if (known_.size() >= kKept) known_.clear();
    known_.emplace(std::move(key), fresh);
    return hold(std::move(fresh), raws, count);
  }

  Held hold(std::shared_ptr<Known> known, PyObject* const* raws, Py_ssize_t count) const {
    if (known->steps.empty()) return Held();
    for (auto& step : known->steps) {
      if (step->running.try_lock()) return Held(step);
    }
    auto made = prepare(raws, count, known->attrs.ptr());
    if (!made) return Held();
    known->steps.push_back(made);
    made->running.lock();
    return Held(std::move(made));
  }

  std::shared_ptr<PyStep> prepare(PyObject* const* raws, Py_ssize_t count, PyObject* attrs) const {
    nb::list list;
    for (Py_ssize_t i = 0; i < count; ++i) list.append(nb::borrow(raws[i]));
    nb::object made = make(list, nb::borrow(attrs));
    if (made.is_none()) return nullptr;
    auto step = nb::cast<std::shared_ptr<PyStep>>(made);
    return step->out.size() > static_cast<std::size_t>(kMost) ? nullptr : step;
  }

  std::unordered_multimap<std::string, std::shared_ptr<Known>> known_;
  std::string key_;
  Py_ssize_t visible_;
  npy_intp least_;
};

// -- raw functions for gradient rules -------------------------------------------------------------

// `function(a, b)` on raw arrays by the short path, else by the general function.
template <int kind>
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
  Py_XSETREF(device_of, Py_NewRef(device));
  Py_XSETREF(general, Py_NewRef(fallback));
  Py_CLEAR(last_ctx);
  Py_CLEAR(last_device);
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

int eager_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<Eager>(self)->make.ptr());
  Py_VISIT(nb::inst_ptr<Eager>(self)->op.ptr());
  return 0;
}

int eager_clear(PyObject* self) {
  if (nb::inst_ready(self)) {
    nb::inst_ptr<Eager>(self)->make.reset();
    nb::inst_ptr<Eager>(self)->op.reset();
  }
  return 0;
}

PyType_Slot eager_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(eager_traverse)},
                             {Py_tp_clear, reinterpret_cast<void*>(eager_clear)},
                             {0, nullptr}};

PyTypeObject* enter_type(nb::module_& module, PyType_Spec& spec, const char* name) {
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw nb::python_error();
  module.attr(name) = nb::borrow(type);
  return reinterpret_cast<PyTypeObject*>(type);
}

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

void enter_eager(PyObject* raw_module) {
  nb::module_ module = nb::borrow<nb::module_>(raw_module);
  scalar_word = PyUnicode_InternFromString("scalar");
  array_base = enter_type(module, array_spec, "ArrayBase");
  leaf_type = enter_row<5>(module, "minigluon._core.Leaf", "Leaf", leaf_members,
                           leaf_init, "A variable: an array with an attached gradient.");
  entry_type = enter_row<7>(module, "minigluon._core.Entry", "Entry", entry_members,
                            entry_init, "One remembered call.");
  output_type = enter_row<2>(module, "minigluon._core.Output", "Output", output_members,
                             output_init, "Output number `index` of an entry.");
  PyTypeObject* state = enter_type(module, state_spec, "State");
  module.attr("state") = nb::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(state)));
  PyModule_AddFunctions(raw_module, methods);
  nb::class_<Eager>(module, "Eager", "Prepared Steps of one operator.", nb::type_slots(eager_slots))
      .def(nb::init<nb::object, nb::object, Py_ssize_t, npy_intp>(), nb::arg("op"), nb::arg("make"),
           nb::arg("visible"), nb::arg("least") = 0)
      .def("raw", &Eager::raw, nb::arg("arrays"), nb::arg("attrs"),
           nb::arg("device").none() = nb::none())
      .def("into", &Eager::into, nb::arg("arrays"), nb::arg("attrs"), nb::arg("targets"))
      .def("__call__", &Eager::call, nb::arg("arrays"), nb::arg("attrs"))
      .def("__len__", &Eager::size);
}

}  // namespace mg
