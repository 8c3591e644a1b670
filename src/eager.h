// The objects of the eager short path, as C++ sees them.
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

}  // namespace mg
