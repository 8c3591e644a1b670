// How NumPy arrays get pooled memory: a memory handler of NumPy's (NEP 49) over the pool.
#include <new>

#include "numpy.h"
#include "pool.h"

namespace mg {
namespace {

void* take(void*, std::size_t size) noexcept {
  try {
    return pool_take(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* take_zeroed(void*, std::size_t count, std::size_t size) noexcept {
  try {
    return pool_take(count * size, true);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* resize(void*, void* old, std::size_t size) noexcept {
  try {
    return pool_resize(old, size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void give(void*, void* pointer, std::size_t) noexcept { pool_give(pointer); }

PyDataMem_Handler handler = {"minigluon", 1, {nullptr, take, take_zeroed, resize, give}};
PyObject* capsule = nullptr;

PyObject* pooled_begin(PyObject*, PyObject*) { return PyDataMem_SetHandler(capsule); }

PyObject* pooled_end(PyObject*, PyObject* before) {
  PyObject* ours = PyDataMem_SetHandler(before);
  if (ours == nullptr) return nullptr;
  Py_DECREF(ours);
  Py_RETURN_NONE;
}

PyObject* empty(PyObject*, PyObject* args) {
  PyObject* shape;
  PyArray_Descr* descr = nullptr;
  if (!PyArg_ParseTuple(args, "OO&", &shape, PyArray_DescrConverter, &descr)) return nullptr;
  const int type_num = descr->type_num;
  Py_DECREF(descr);
  PyArray_Dims dims{nullptr, 0};
  if (!PyArray_IntpConverter(shape, &dims)) return nullptr;
  PyObject* made = fresh_array(type_num, dims.len, dims.ptr);
  PyDimMem_FREE(dims.ptr);
  return made;
}

PyMethodDef methods[] = {
    {"pooled_begin", pooled_begin, METH_NOARGS,
     "From now on big NumPy arrays of this thread lie in the pool; what pooled_end is given."},
    {"pooled_end", pooled_end, METH_O, "The end of pooled_begin."},
    {"empty", empty, METH_VARARGS, "empty(shape, dtype): an unset array, pooled where it is big."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

Pooled::Pooled() : before_(PyDataMem_SetHandler(capsule)) {}

Pooled::~Pooled() {
  PyObject* ours = PyDataMem_SetHandler(before_);
  Py_XDECREF(ours);
  Py_XDECREF(before_);
}

PyObject* fresh_array(int type_num, int ndim, const npy_intp* dims) {
  std::size_t bytes = 8;
  for (int i = 0; i < ndim; ++i) bytes *= static_cast<std::size_t>(dims[i]);
  // NumPy's own allocator is quicker, but a vector across two cache lines costs two accesses.
  constexpr std::size_t aligned_from = 1024;
  if (bytes < aligned_from) return PyArray_EMPTY(ndim, const_cast<npy_intp*>(dims), type_num, 0);
  Pooled pooled;
  return PyArray_EMPTY(ndim, const_cast<npy_intp*>(dims), type_num, 0);
}

namespace {

constexpr char kBlock[] = "minigluon.kept_block";

void give_block(PyObject* block) { pool_give(PyCapsule_GetPointer(block, kBlock)); }

}  // namespace

PyObject* kept_block(std::size_t bytes) {
  void* data = take(nullptr, bytes);
  if (data == nullptr) return PyErr_NoMemory();
  PyObject* block = PyCapsule_New(data, kBlock, give_block);
  if (block == nullptr) pool_give(data);
  return block;
}

PyObject* array_within(PyObject* block, std::size_t offset, int type_num, int ndim,
                       const npy_intp* dims) {
  char* data = static_cast<char*>(PyCapsule_GetPointer(block, kBlock)) + offset;
  PyObject* made = PyArray_New(&PyArray_Type, ndim, const_cast<npy_intp*>(dims), type_num, nullptr,
                               data, 0, NPY_ARRAY_CARRAY, nullptr);
  if (made != nullptr && PyArray_SetBaseObject(as_array(made), Py_NewRef(block)) < 0) {
    Py_CLEAR(made);
  }
  return made;
}

PyObject* block_of(PyObject* array, std::size_t* offset) {
  if (!PyArray_CheckExact(array)) return nullptr;
  PyObject* block = PyArray_BASE(as_array(array));
  if (block == nullptr || !PyCapsule_IsValid(block, kBlock)) return nullptr;
  *offset = static_cast<std::size_t>(static_cast<char*>(PyArray_DATA(as_array(array))) -
                                     static_cast<char*>(PyCapsule_GetPointer(block, kBlock)));
  return block;
}

void enter_memory(PyObject* module) {
  capsule = PyCapsule_New(&handler, "mem_handler", nullptr);
  PyModule_AddFunctions(module, methods);
}

}  // namespace mg
