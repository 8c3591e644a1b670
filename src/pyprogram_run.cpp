// One run of a program: at once, with the Python bodies that it calls, or queued.
#include "pyprogram.h"

#include <omp.h>

#include <algorithm>

#include "pystep.h"
#include "random.h"

namespace mg {

// A new reference to an array over memory that `base` keeps, or null: whoever has it sees to that.
static PyObject* array_at(void* memory, const Desc& desc, PyObject* base) {
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

bool PyProgram::worth_queueing() const {
  const double from = mg::worth_queueing();  // 0: all are queued, for tests
  return may_wait_ && (from <= 0 || (runs_ >= kMeasured && seconds_.load() >= from));
}

PyObject* PyProgram::run(PyObject* const* inputs, PyObject* device, const Targets* targets) {
  const auto self = std::this_thread::get_id();
  if (owner_.load() == self) Py_RETURN_NONE;
  if (!running_.try_lock()) {
    PyThreadState* saved = PyEval_SaveThread();
    running_.lock();
    PyEval_RestoreThread(saved);
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
    well = program_.run(pointers_.data(), *this);
    measured(begin);
  } catch (const std::exception& error) {
    failed = error.what();
  }
  PyEval_RestoreThread(thread_);
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

void PyProgram::measured(Engine::Clock::time_point begin) {
  const double now = std::chrono::duration<double>(Engine::Clock::now() - begin).count();
  seconds_.store(runs_ == 0 ? now : std::min(now, seconds_.load()));
  ++runs_;
}

PyObject* PyProgram::results() {
  PyObject* made = arrays_of(program_.returned);
  if (made != nullptr && !apart_ && !own(made)) Py_CLEAR(made);
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
  return array_at(pointers_[root], program_.slots[index].desc, objects_[root]);
}

bool PyProgram::callback(const Call& call, void** pointers) {
  PyEval_RestoreThread(thread_);
  const bool well = python(call, pointers);
  thread_ = PyEval_SaveThread();
  return well;
}

void PyProgram::release(const std::vector<int>& slots) {
  PyEval_RestoreThread(thread_);
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

// One queued run: what it needs, alive until it ran.
struct PyProgram::Queued : Work {
  FaultPtr run() override {
    omp_set_num_threads(threads);
    std::lock_guard<std::mutex> hold(program->running_);
    for (std::size_t i = 0; i < seeds.size(); ++i) program->drawing_[i]->seed = seeds[i];
    Arena arena(program->program_.arena_bytes);
    for (std::size_t i = 0; i + 1 < pointers.size(); ++i) {
      const Slot& slot = program->program_.slots[i];
      if (slot.place == Place::arena) pointers[i] = arena.data() + slot.where;
    }
    pointers.back() = arena.data();
    const auto begin = Engine::Clock::now();
    program->early_ = early.get();
    program->watches = early != nullptr;
    program->program_.run(pointers.data(), *program);
    program->watches = false;
    program->measured(begin);
    if (early) early->close(nullptr);
    return nullptr;
  }
  ~Queued() override {
    if (early) {  // where it ran, nothing is left to be told
      FaultPtr fault = engine().fault_of(*results, false);
      early->close(fault ? fault : std::make_shared<NativeFault>("a compiled graph did not run"));
    }
    for (PyObject* each : kept) bury(each);
  }

  PyProgram* program = nullptr;
  std::vector<PyObject*> kept;  // the program itself and all arrays
  std::vector<void*> pointers;
  std::vector<Seed> seeds;
  std::shared_ptr<Early> early;
  VarPtr results;
  int threads = 1;
};

PyObject* PyProgram::queue(PyObject* const* inputs, PyObject* device, Ahead& asked,
                           const Targets* targets) {
  auto work = std::make_unique<Queued>();
  work->program = this;
  work->kept.push_back(nb::find(this).release().ptr());
  work->threads = omp_get_max_threads();
  const std::size_t count = program_.slots.size();
  work->pointers.resize(count + 1);
  std::vector<PyObject*> arrays(count, nullptr);
  nb::object block = nb::steal(kept_bytes_ > 0 ? kept_block(kept_bytes_) : Py_NewRef(Py_None));
  if (!block.is_valid()) return nullptr;
  PushOptions options;
  options.held = static_cast<std::size_t>(room_);
  options.what = "a compiled graph";
  for (std::size_t i = 0; i < count; ++i) {
    const Slot& slot = program_.slots[i];
    if (slot.place == Place::input) {
      arrays[i] = Py_NewRef(inputs[slot.where]);
    } else if (slot.place == Place::kept) {
      work->pointers[i] = kept_base(inputs) + slot.where;
      continue;
    } else if (slot.place == Place::output) {
      arrays[i] = output_for(i, block.ptr(), targets);
      if (arrays[i] == nullptr) return nullptr;
      const bool given = targets != nullptr &&
                         std::find(targets->begin(), targets->end(), arrays[i]) != targets->end();
      if (!given) options.bytes += static_cast<std::size_t>(slot.desc.bytes());
    } else {
      continue;
    }
    work->kept.push_back(arrays[i]);
    work->pointers[i] = PyArray_DATA(as_array(arrays[i]));
  }
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(program_.returned.size())));
  for (std::size_t i = 0; made.is_valid() && i < program_.returned.size(); ++i) {
    const int index = program_.returned[i], root = program_.root(index);
    PyObject* array = Py_XNewRef(arrays[index]);
    if (array == nullptr) {
      array = array_at(work->pointers[root], program_.slots[index].desc, arrays[root]);
      if (array == nullptr) return nullptr;
    }
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), array);
  }
  if (!made.is_valid()) return nullptr;
  if (!drawing_.empty()) {
    Source& source = source_of_device(device);
    for (std::size_t i = 0; i < drawing_.size(); ++i) work->seeds.push_back(source.next());
  }
  std::vector<VarPtr> writes = asked.writes;
  if (!asked.results) asked.results = std::make_shared<Var>();
  writes.push_back(asked.results);
  if (asked.wants_early) {
    std::vector<PyObject*> results(program_.returned.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i] = PyTuple_GET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i));
    }
    work->early = asked.early = std::make_shared<Early>(std::move(results));
    work->results = asked.results;
  }
  engine().push(std::move(work), asked.reads, std::move(writes), options);
  return made.release().ptr();
}

}  // namespace mg
