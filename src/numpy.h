// NumPy's C API, shared by the files that know Python.
#pragma once

#define PY_ARRAY_UNIQUE_SYMBOL minigluon_core_numpy
#ifndef MG_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <Python.h>
#include <numpy/arrayobject.h>

#include "kernel.h"

namespace mg {

// NumPy's number of an element type; -1 in the other direction: a type we do not know.
inline int numpy_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return NPY_FLOAT;
    case DType::f64: return NPY_DOUBLE;
    case DType::f16: return NPY_HALF;
    case DType::i32: return NPY_INT32;
    case DType::i64: return NPY_INT64;
    case DType::u8: return NPY_UINT8;
    case DType::i8: return NPY_INT8;
    default: return NPY_BOOL;
  }
}

inline int dtype_of(int type_num) {
  switch (type_num) {
    case NPY_FLOAT: return static_cast<int>(DType::f32);
    case NPY_DOUBLE: return static_cast<int>(DType::f64);
    case NPY_HALF: return static_cast<int>(DType::f16);
    case NPY_BOOL: return static_cast<int>(DType::b8);
    case NPY_UBYTE: return static_cast<int>(DType::u8);
    case NPY_BYTE: return static_cast<int>(DType::i8);
    case NPY_INT: return static_cast<int>(DType::i32);
    case NPY_LONG:
      return static_cast<int>(sizeof(long) == 8 ? DType::i64 : DType::i32);
    case NPY_LONGLONG: return static_cast<int>(DType::i64);
    default: return -1;
  }
}

inline PyArrayObject* as_array(PyObject* object) {
  return reinterpret_cast<PyArrayObject*>(object);
}

// A dense array in native byte order whose memory a kernel can use as it is.
inline bool is_dense(PyArrayObject* array) {
  return PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED) &&
         PyArray_ISNOTSWAPPED(array);
}

// A new array with unset values that owns its memory, from the pool where it is big; a new
// reference, or null with an error set.
PyObject* fresh_array(int type_num, int ndim, const npy_intp* dims);

// One block for all that a forward keeps for its backward, which may then use it for something
// else. A new reference, or null with an error set.
PyObject* kept_block(std::size_t bytes);
// An array so many bytes into a block, which lives as long. Views of it must not be made.
PyObject* array_within(PyObject* block, std::size_t offset, int type_num, int ndim,
                       const npy_intp* dims);
// The block that an array lies in and how many bytes into it; null where it is no such array.
PyObject* block_of(PyObject* array, std::size_t* offset);

// While it lives, arrays that NumPy makes in this thread lie in the pool where they are big.
class Pooled {
 public:
  Pooled();
  ~Pooled();
  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;

 private:
  PyObject* before_;
};

// Enter what bindings of other files offer.
void enter_memory(PyObject* module);
// Enters the functions of the parameter server (kvstore/kvstore.cpp).
void enter_kvstore(PyObject* module);
void enter_tape(PyObject* module);
void enter_pairs(PyObject* module);
void enter_steps(PyObject* module);
void enter_walk(PyObject* module);
void enter_programs(PyObject* module);
void enter_updates(PyObject* module);

}  // namespace mg
