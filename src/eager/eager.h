// The short path of eager calls: NDArray's memory layout, + - * / on small arrays, prepared Steps
// of an operator by the types and shapes of its inputs, and what recording writes down.
//
// Everything here answers "not for me" (NotImplemented, None) for whatever is unusual; the Python
// side then does the same by the general way, so this room decides speed and never meaning.
#pragma once

#include <cstring>

#include "numpy.h"

namespace mg {

// NDArrays and the tape's objects are a row of references, then the list of weak references.
template <int N>
struct Row {
  PyObject_HEAD
  PyObject* at[N];
  PyObject* weak;
};

// NDArray: the raw array, its context, its engine variable or None, where it comes from or None.
enum { kData, kCtx, kVar, kAg };
using Array = Row<4>;

// tape.Leaf: a variable and its gradient array.
enum { kLeafArray, kLeafGrad, kLeafReq, kLeafName, kLeafFresh };
using TapeLeaf = Row<5>;

// tape.Entry: a remembered call. tape.Output: output number `index` of an entry.
// `order`: of a call that was queued, the variables of its inputs and the one of its results.
enum { kOp, kAttrs, kDevice, kSources, kInputs, kOutputs, kOrder };
using TapeEntry = Row<7>;
enum { kEntry, kIndex };
using TapeOutput = Row<2>;

// This thread's flags (zero where it has set none).
struct Flags {
  bool recording, training;
};
extern __thread Flags flags;  // not thread_local: nothing is to be initialised at a first use

extern PyTypeObject* ndarray_type;   // the class NDArray itself, once it is known
extern PyTypeObject* np_array_type;  // the class np.ndarray, once its room is loaded
extern PyTypeObject* leaf_type;
extern PyTypeObject* entry_type;
extern PyTypeObject* output_type;

inline bool is_plain(PyObject* object) {
  return Py_TYPE(object) == ndarray_type || Py_TYPE(object) == np_array_type;
}

inline PyObject* slot(PyObject* array, int which) {
  return reinterpret_cast<Array*>(array)->at[which];
}

// Whether no write to the array is pending.
bool is_idle(PyObject* array);
// Its variable, made if need be; borrowed. Null with an error set.
PyObject* variable_of(PyObject* array);
// Whether no read of it is pending either, so that it can be written to.
bool is_unused(PyObject* array);

inline bool same_shape(PyArrayObject* a, PyArrayObject* b) {
  const int ndim = PyArray_NDIM(a);
  return ndim == PyArray_NDIM(b) &&
         std::memcmp(PyArray_DIMS(a), PyArray_DIMS(b), ndim * sizeof(npy_intp)) == 0;
}

// `function(ctx)` gives the Device of a context.
void set_device_of(PyObject* function);
// The class of what is computed of these: NumPy's if one of them is.
PyTypeObject* class_for(PyObject* const* inputs, Py_ssize_t count);
// An NDArray; steals `data`.
PyObject* wrap(PyTypeObject* type, PyObject* data, PyObject* ctx);
// Whether the tape follows an array.
bool is_tracked(PyObject* array);
// Hang Output(entry, i) on `arrays`; `raws` are all outputs. Takes borrowed references.
bool remember(PyObject* op, PyObject* attrs, PyObject* const* inputs, Py_ssize_t count,
              PyObject* const* arrays, Py_ssize_t shown, PyObject* const* raws, Py_ssize_t made);

}  // namespace mg
