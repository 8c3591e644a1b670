// One run of a program at once, with the Python bodies that it calls.
#include "pyprogram.h"

#include <algorithm>

#include "away.h"
#include "pystep.h"
#include "random.h"

namespace mg {

PyObject* PyProgram::run(PyObject* const* inputs, PyObject* device, const Targets* targets) {
  const auto self = std::this_thread::get_id();
  if (owner_.load() == self) Py_RETURN_NONE;
  if (!running_.try_lock()) {
    Away away;
    running_.lock();
  }
  owner_.store(self);
  PyObject* results = nullptr;
  try {
    if (!drawing_.empty()) {
      Source& source = source_of_device(device);
      for (const auto& step : drawing_) step->seed = source.next();
    }
    results = locked_run(inputs, device, targets);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  for (PyObject*& object : objects_) Py_CLEAR(object);
  owner_.store(std::thread::id());
  running_.unlock();
  return results;
}

PyObject* PyProgram::locked_run(PyObject* const* inputs, PyObject* device, const Targets* targets) {
  const std::size_t count = program_.slots.size();
  nb::object block = nb::steal(kept_bytes_ > 0 ? kept_block(kept_bytes_) : Py_NewRef(Py_None));
  if (!block.is_valid()) return nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const Slot& slot = program_.slots[i];
    if (slot.place == Place::input) {
      objects_[i] = Py_NewRef(inputs[slot.where]);
    } else if (slot.place == Place::output) {
      objects_[i] = output_for(i, block.ptr(), targets);
      if (objects_[i] == nullptr) return nullptr;
    } else {
      continue;
    }
    pointers_[i] = PyArray_DATA(as_array(objects_[i]));
  }
  Arena arena(program_.arena_bytes);
  arena_ = arena.data();
  for (std::size_t i = 0; i < count; ++i) {
    const Slot& slot = program_.slots[i];
    if (slot.place == Place::arena) pointers_[i] = arena_ + slot.where;
    if (slot.place == Place::kept) pointers_[i] = kept_base(inputs) + slot.where;
  }
  pointers_[count] = arena_;
  device_ = device;
  watches = false;
  thread_ = PyEval_SaveThread();
  bool well = false;
  std::string failed;
  try {
    const auto begin = Engine::Clock::now();
    well = program_.run(pointers_.data(), *this, 0, program_.calls.size());
    measured(Engine::Clock::now() - begin);
  } catch (const std::exception& error) {
    failed = error.what();
  }
  come_back(thread_);
  if (!failed.empty()) {
    PyErr_SetString(PyExc_RuntimeError, failed.c_str());
    return nullptr;
  }
  return well ? results() : nullptr;
}

PyObject* PyProgram::output_for(std::size_t index, PyObject* block, const Targets* targets) const {
  const Slot& slot = program_.slots[index];
  const auto* dims = reinterpret_cast<const npy_intp*>(slot.desc.shape.data());
  const int type = numpy_type(slot.desc.dtype), ndim = slot.desc.ndim();
  if (kept_at_[index] >= 0) {
    return array_within(block, static_cast<std::size_t>(kept_at_[index]), type, ndim, dims);
  }
  for (std::size_t i = 0; targets != nullptr && i < targets->size(); ++i) {
    if ((*targets)[i] == nullptr || program_.returned[i] != static_cast<int>(index)) continue;
    PyArrayObject* target = as_array((*targets)[i]);
    if (PyArray_TYPE(target) == type && PyArray_NDIM(target) == ndim &&
        std::equal(dims, dims + ndim, PyArray_DIMS(target))) {
      return Py_NewRef((*targets)[i]);
    }
  }
  return fresh_array(type, ndim, dims);
}

char* PyProgram::kept_base(PyObject* const* inputs) const {
  return static_cast<char*>(PyArray_DATA(as_array(inputs[home_]))) - home_offset_;
}

void PyProgram::measured(std::chrono::duration<double> took) {
  const double now = took.count();
  seconds_.store(runs_ == 0 ? now : std::min(now, seconds_.load()));
  ++runs_;
}

PyObject* PyProgram::results() {
  PyObject* made = arrays_of(program_.returned);
  if (made != nullptr && !apart_ && !own(made)) Py_CLEAR(made);
  return made;
}

PyObject* PyProgram::array_over(void* memory, const Desc& desc, PyObject* base) {
  PyObject* made = PyArray_New(&PyArray_Type, desc.ndim(),
                               reinterpret_cast<const npy_intp*>(desc.shape.data()),
                               numpy_type(desc.dtype), nullptr, memory, 0, NPY_ARRAY_CARRAY,
                               nullptr);
  if (made != nullptr && base != nullptr &&
      PyArray_SetBaseObject(as_array(made), Py_NewRef(base)) < 0) {
    Py_CLEAR(made);
  }
  return made;
}

PyObject* PyProgram::arrays_of(const std::vector<int>& slots) {
  PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(slots.size()));
  for (std::size_t i = 0; made != nullptr && i < slots.size(); ++i) {
    PyObject* array = array_of(slots[i]);
    if (array == nullptr) Py_CLEAR(made);
    else PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), array);
  }
  return made;
}

bool PyProgram::own(PyObject* results) {
  buffers_.clear();
  for (std::size_t i = program_.returned.size(); i-- > 0;) {  // hidden ones stay as they are
    const auto place = static_cast<Py_ssize_t>(i);
    PyObject* array = PyTuple_GET_ITEM(results, place);
    if (!PyArray_Check(array)) continue;
    PyObject* base = PyArray_BASE(as_array(array));
    if (buffers_.insert(base != nullptr ? base : array).second || i >= visible_) continue;
    PyObject* copy = PyArray_NewCopy(as_array(array), NPY_CORDER);
    if (copy == nullptr) return false;
    PyTuple_SET_ITEM(results, place, copy);
    Py_DECREF(array);
  }
  return true;
}

PyObject* PyProgram::array_of(int index) {
  if (objects_[index] != nullptr) return Py_NewRef(objects_[index]);
  const int root = program_.root(index);
  return array_over(pointers_[root], program_.slots[index].desc, objects_[root]);
}

bool PyProgram::callback(const Call& call, void** pointers) {
  come_back(thread_);
  const bool well = python(call, pointers);
  thread_ = PyEval_SaveThread();
  return well;
}

void PyProgram::release(const std::vector<int>& slots) {
  come_back(thread_);
  for (int slot : slots) Py_CLEAR(objects_[slot]);
  thread_ = PyEval_SaveThread();
}

void PyProgram::reached(std::size_t at) {
  for (int number : ready_[at]) early_->reached(number);
}

bool PyProgram::python(const Call& call, void** pointers) {
  PyObject* given = arrays_of(call.in);
  if (given == nullptr) return false;
  PyObject* args[] = {device_, given};
  PyObject* made = PyObject_Vectorcall(callbacks_[call.callback].ptr(), args, 2, nullptr);
  Py_DECREF(given);
  if (made == nullptr) return false;
  const bool well = take(call, made, pointers);
  Py_DECREF(made);
  return well;
}

bool PyProgram::take(const Call& call, PyObject* made, void** pointers) {
  if (!PyTuple_Check(made) ||
      PyTuple_GET_SIZE(made) != static_cast<Py_ssize_t>(call.out.size())) {
    PyErr_SetString(PyExc_RuntimeError, "a step of a program returned the wrong number of arrays");
    return false;
  }
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const int index = call.out[i];
    if (index < 0) continue;
    PyObject* array = PyTuple_GET_ITEM(made, static_cast<Py_ssize_t>(i));
    const Slot& slot = program_.slots[index];
    if (slot.known && !fits(array, slot.desc)) return false;
    const bool numpy = PyArray_Check(array);
    if (numpy && ((slot.known && !is_dense(as_array(array))) ||
                  shows_temporary(call, as_array(array), pointers))) {
      array = PyArray_NewCopy(as_array(array), NPY_CORDER);
      if (array == nullptr) return false;
    } else {
      Py_INCREF(array);
    }
    Py_XSETREF(objects_[index], array);
    pointers[index] = PyArray_Check(array) ? PyArray_DATA(as_array(array)) : nullptr;
  }
  return true;
}

bool PyProgram::fits(PyObject* array, const Desc& desc) {
  if (PyArray_Check(array)) {
    PyArrayObject* raw = as_array(array);
    bool same = dtype_of(PyArray_TYPE(raw)) == static_cast<int>(desc.dtype) &&
                PyArray_NDIM(raw) == desc.ndim();
    for (int i = 0; same && i < desc.ndim(); ++i) same = PyArray_DIM(raw, i) == desc.shape[i];
    if (same) return true;
  }
  PyErr_SetString(PyExc_RuntimeError,
                  "an operator returned an array of another shape or type than its rules say");
  return false;
}

bool PyProgram::shows_temporary(const Call& call, PyArrayObject* array, void** pointers) const {
  const char* data = static_cast<const char*>(PyArray_DATA(array));
  for (int index : call.in) {
    const int root = program_.root(index);
    const Place place = program_.slots[root].place;
    if (!temporary_[root] || (place == Place::output && root == index)) continue;
    const char* begin = static_cast<const char*>(pointers[root]);
    if (data >= begin && data < begin + program_.slots[index].desc.bytes()) return true;
  }
  return false;
}

}  // namespace mg
