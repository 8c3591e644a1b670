// What Python sees of the core: steps, programs, the pool's figures. (memory.cpp, eager.cpp
// and kvstore/kvstore.cpp enter their own functions; nothing else knows Python.)
#define MG_IMPORTS_NUMPY
#include "numpy.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "eager.h"
#include "engine/ahead.h"
#include "parallel.h"
#include "program.h"
#include "pystep.h"
#include "random.h"
#include "registry.h"

namespace nb = nanobind;
using namespace mg;

namespace {

// -- what Python gives ----------------------------------------------------------------------------

const std::map<std::string, DType>& dtype_names() {
  static const std::map<std::string, DType> names = {
      {"float32", DType::f32}, {"float64", DType::f64}, {"float16", DType::f16},
      {"int32", DType::i32},   {"int64", DType::i64},   {"uint8", DType::u8},
      {"int8", DType::i8},     {"bool", DType::b8}};
  return names;
}

DType dtype_named(const std::string& name) {
  auto found = dtype_names().find(name);
  if (found == dtype_names().end()) throw nb::value_error(("no native dtype " + name).c_str());
  return found->second;
}

Desc desc_of(nb::handle given) {  // (dtype name, shape)
  Desc desc;
  desc.dtype = dtype_named(nb::cast<std::string>(given[0]));
  desc.shape = nb::cast<std::vector<int64_t>>(given[1]);
  return desc;
}

std::vector<Desc> descs_of(nb::handle list) {
  std::vector<Desc> descs;
  for (nb::handle each : list) descs.push_back(desc_of(each));
  return descs;
}

// One attribute; false: a value that kernels cannot be told.
bool set_attr(Attrs& attrs, const std::string& name, nb::handle value) {
  PyObject* raw = value.ptr();
  if (raw == Py_None) return true;
  if (PyBool_Check(raw)) {
    attrs.set(name, raw == Py_True);
  } else if (PyLong_Check(raw)) {
    attrs.set(name, nb::cast<int64_t>(value));
  } else if (PyFloat_Check(raw)) {
    attrs.set(name, PyFloat_AsDouble(raw));
  } else if (PyUnicode_Check(raw)) {
    attrs.set(name, nb::cast<std::string>(value));
  } else if (PyTuple_Check(raw) || PyList_Check(raw)) {
    std::vector<int64_t> whole;
    std::vector<double> numbers;
    for (nb::handle item : value) {
      if (PyLong_Check(item.ptr())) {
        whole.push_back(nb::cast<int64_t>(item));
        numbers.push_back(static_cast<double>(whole.back()));
      } else if (PyFloat_Check(item.ptr())) {
        numbers.push_back(PyFloat_AsDouble(item.ptr()));
      } else {
        return false;
      }
    }
    if (whole.size() == numbers.size()) {
      attrs.set(name, std::move(whole));
    } else {
      attrs.set(name, std::move(numbers));
    }
  } else {
    return false;
  }
  return true;
}

// -- one step -------------------------------------------------------------------------------------

void* pointer_of(nb::handle array, const Desc& desc, const char* what) {
  if (!PyArray_Check(array.ptr())) throw nb::type_error("Step: expected NumPy arrays");
  PyArrayObject* raw = as_array(array.ptr());
  if (!is_dense(raw) || dtype_of(PyArray_TYPE(raw)) != static_cast<int>(desc.dtype) ||
      PyArray_SIZE(raw) != desc.size()) {
    throw nb::value_error(
        (std::string("Step: an ") + what + " is not the dense array the step is made for").c_str());
  }
  return PyArray_DATA(raw);
}

std::vector<void*> pointers_of(nb::sequence arrays, const std::vector<Desc>& descs,
                               const char* what) {
  if (nb::len(arrays) != descs.size()) {
    throw nb::value_error((std::string("Step: the number of ") + what + "s is not that of the step")
                              .c_str());
  }
  std::vector<void*> found;
  for (std::size_t i = 0; i < descs.size(); ++i) {
    found.push_back(pointer_of(nb::object(arrays[i]), descs[i], what));
  }
  return found;
}

void step_run(PyStep& self, nb::sequence inputs, nb::sequence outputs) {
  std::vector<void*> from = pointers_of(inputs, self.in, "input");
  std::vector<void*> to = pointers_of(outputs, self.out, "output");
  self.run(from.data(), to.data());
}

// Fresh outputs for these inputs.
nb::object step_call(PyStep& self, nb::sequence inputs) {
  std::vector<void*> from = pointers_of(inputs, self.in, "input"), to;
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(self.out.size())));
  for (std::size_t i = 0; i < self.out.size(); ++i) {
    PyObject* array = self.fresh_output(i);
    if (array == nullptr) throw nb::python_error();
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), array);
    to.push_back(PyArray_DATA(as_array(array)));
  }
  self.run(from.data(), to.data());
  return made;
}

std::shared_ptr<PyStep> py_make_step(const std::string& name, nb::handle in, nb::handle out,
                                     nb::dict attrs) {
  if (kernels().find(name) == kernels().end()) return nullptr;
  for (nb::handle list : {in, out}) {
    for (nb::handle each : list) {
      if (dtype_names().count(nb::cast<std::string>(each[0])) == 0) return nullptr;
    }
  }
  Attrs given;
  if (!attrs_of(attrs.ptr(), given)) return nullptr;
  auto made = std::make_shared<PyStep>();
  made->name = name;
  made->in = descs_of(in);
  made->out = descs_of(out);
  made->step = make_step(name, made->in, made->out, given);
  return made->step ? made : nullptr;
}

}  // namespace

Source& mg::source_of_device(PyObject* device) {
  return *nb::cast<Source*>(nb::handle(device).attr("source"));
}

bool mg::attrs_of(PyObject* dict, Attrs& attrs) {
  for (auto [key, value] : nb::borrow<nb::dict>(dict)) {
    if (!set_attr(attrs, nb::cast<std::string>(key), value)) return false;
  }
  return true;
}

namespace {

// -- a program ------------------------------------------------------------------------------------

// For each result an array that it may be written into, or null. Whoever gives it has them alone.
using Targets = std::vector<PyObject*>;
// Inputs that nobody reads after a run, and where they lie in the block that they share.
using Spent = std::vector<std::pair<int, int64_t>>;

// A program, the signature of its inputs, and its callbacks.
class PyProgram : Host {
 public:
  PyProgram(nb::list slots, nb::list calls, std::vector<int> returned, std::size_t arena_bytes,
            std::size_t visible, const Spent& spent)
      : visible_(std::min(visible, returned.size())) {
    for (nb::handle each : slots) {  // (place, where, dtype or None, shape)
      Slot slot;
      slot.place = static_cast<Place>(nb::cast<int>(each[0]));
      slot.where = nb::cast<int64_t>(each[1]);
      slot.known = !each[2].is_none();
      if (slot.known) {
        slot.desc.dtype = dtype_named(nb::cast<std::string>(each[2]));
        slot.desc.shape = nb::cast<std::vector<int64_t>>(each[3]);
      }
      program_.slots.push_back(std::move(slot));
    }
    for (nb::handle each : calls) {  // (Step or callable, in, out, free, scratch)
      Call call;
      nb::object does = each[0];
      if (nb::isinstance<PyStep>(does)) {
        auto step = nb::cast<std::shared_ptr<PyStep>>(does);
        call.step = step->step;
        labels_.push_back(step->name);
        if (call.step->draws()) drawing_.push_back(call.step);
      } else {
        call.callback = static_cast<int>(callbacks_.size());
        callbacks_.push_back(does);
        labels_.push_back(nb::cast<std::string>(does.attr("__name__")));
      }
      call.in = nb::cast<std::vector<int>>(each[1]);
      call.out = nb::cast<std::vector<int>>(each[2]);
      call.free = nb::cast<std::vector<int>>(each[3]);
      call.scratch = nb::cast<int64_t>(each[4]);
      program_.calls.push_back(std::move(call));
    }
    program_.returned = std::move(returned);
    program_.arena_bytes = arena_bytes;
    program_.prepare();
    if (!spent.empty()) std::tie(home_, home_offset_) = spent.front();
    check(spent);
    temporary_.resize(program_.slots.size());
    for (std::size_t i = 0; i < program_.slots.size(); ++i) {
      const Slot& slot = program_.slots[i];
      temporary_[i] = slot.place != Place::input && slot.place != Place::object;
    }
    for (const auto& [input, offset] : spent) temporary_[static_cast<std::size_t>(input)] = true;
    find_kept();
    std::unordered_set<int> distinct;
    for (int slot : program_.returned) {
      apart_ = apart_ && program_.slots[slot].place == Place::output && distinct.insert(slot).second;
    }
    objects_.resize(program_.slots.size());
    pointers_.resize(program_.slots.size() + 1);
    may_wait_ = callbacks_.empty() && lie_apart();
    ready_.resize(program_.calls.size());
    for (std::size_t i = 0; i < program_.returned.size(); ++i) {
      const int root = program_.root(program_.returned[i]);
      for (std::size_t at = program_.calls.size(); at-- > 0;) {
        const std::vector<int>& out = program_.calls[at].out;
        if (std::none_of(out.begin(), out.end(),
                         [&](int slot) { return slot >= 0 && program_.root(slot) == root; })) {
          continue;
        }
        ready_[at].push_back(static_cast<int>(i));
        break;
      }
    }
  }

  std::size_t arena_bytes() const { return program_.arena_bytes; }
  std::size_t kept_bytes() const { return kept_bytes_; }  // made for a backward
  std::size_t native_calls() const { return program_.calls.size() - callbacks_.size(); }
  std::size_t callback_calls() const { return callbacks_.size(); }
  nb::list callback_names() const {
    nb::list names;
    for (const nb::object& each : callbacks_) names.append(each.attr("__name__"));
    return names;
  }

  // Keep count of the time each call takes from now on, or no more.
  void measure(bool on) { program_.spent.assign(on ? program_.calls.size() : 0, 0); }

  // (operator, seconds so far) of each call, in order.
  nb::list times() const {
    nb::list made;
    for (std::size_t i = 0; i < program_.spent.size(); ++i) {
      made.append(nb::make_tuple(labels_[i], static_cast<double>(program_.spent[i]) * 1e-9));
    }
    return made;
  }

  // Whether a run is worth queueing: it needs no Python, and it was never short so far.
  bool worth_queueing() const {
    const double from = mg::worth_queueing();  // 0: all are queued, for tests
    return may_wait_ && (from <= 0 || (runs_ >= kMeasured && seconds_.load() >= from));
  }

  // Queue one run: its results as a tuple, whose values come later.
  PyObject* queue(PyObject* const* inputs, PyObject* device, Ahead& asked,
                  const Targets* targets = nullptr);

  // The results of one run, as a tuple; None where this thread is running the program already.
  // `targets`: arrays that results may be written into.
  PyObject* run(PyObject* const* inputs, PyObject* device, const Targets* targets = nullptr) {
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

 private:
  PyObject* locked_run(PyObject* const* inputs, PyObject* device, const Targets* targets) {
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

  // The array that an output slot lies in during one run: a new reference, or null with an error.
  PyObject* output_for(std::size_t index, PyObject* block, const Targets* targets) const {
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

  // Which outputs are one hidden result each and nothing else: what a backward reads. They share a
  // block where it is worth it.
  void find_kept() {
    std::unordered_map<int, int> users;
    for (int slot : program_.returned) ++users[program_.root(slot)];
    kept_at_.assign(program_.slots.size(), -1);
    for (std::size_t i = visible_; i < program_.returned.size(); ++i) {
      const int slot = program_.returned[i];
      const int64_t bytes = program_.slots[slot].desc.bytes();
      if (program_.slots[slot].place != Place::output || users[slot] != 1 || bytes < kWorthKeeping) {
        continue;
      }
      kept_at_[slot] = static_cast<int64_t>(kept_bytes_);
      kept_bytes_ += static_cast<std::size_t>((bytes + 63) / 64 * 64);
    }
  }

  // Where the block begins that the spent inputs share.
  char* kept_base(PyObject* const* inputs) const {
    return static_cast<char*>(PyArray_DATA(as_array(inputs[home_]))) - home_offset_;
  }

  // The shortest run counts: others may have been disturbed.
  void measured(Engine::Clock::time_point begin) {
    const double now = std::chrono::duration<double>(Engine::Clock::now() - begin).count();
    seconds_.store(runs_ == 0 ? now : std::min(now, seconds_.load()));
    ++runs_;
  }

  // Whether every result lies in fresh memory or is a view of an input, and visible ones lie in
  // fresh memory of their own.
  bool lie_apart() const {
    std::unordered_map<int, int> users;
    for (int slot : program_.returned) ++users[program_.root(slot)];
    for (std::size_t i = 0; i < program_.returned.size(); ++i) {
      const int root = program_.root(program_.returned[i]);
      const Place place = program_.slots[root].place;
      if (i < visible_ ? place != Place::output || users[root] > 1
                       : place != Place::output && place != Place::input) {
        return false;
      }
    }
    return true;
  }

  struct Queued;

  PyObject* results() {
    PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(program_.returned.size()));
    if (made == nullptr) return nullptr;
    for (std::size_t i = 0; i < program_.returned.size(); ++i) {
      PyObject* array = array_of(program_.returned[i]);
      if (array == nullptr) {
        Py_DECREF(made);
        return nullptr;
      }
      PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), array);
    }
    if (!apart_ && !own(made)) Py_CLEAR(made);
    return made;
  }

  // Visible results share no memory with other results, so that each can be written to.
  bool own(PyObject* results) {
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

  // A new reference to an array over the memory of a slot.
  PyObject* array_of(int index) {
    if (objects_[index] != nullptr) return Py_NewRef(objects_[index]);
    const Slot& slot = program_.slots[index];
    const int root = program_.root(index);
    PyObject* made = PyArray_New(&PyArray_Type, slot.desc.ndim(),
                                 reinterpret_cast<const npy_intp*>(slot.desc.shape.data()),
                                 numpy_type(slot.desc.dtype), nullptr, pointers_[root], 0,
                                 NPY_ARRAY_CARRAY, nullptr);
    if (made == nullptr) return nullptr;
    if (objects_[root] != nullptr &&
        PyArray_SetBaseObject(as_array(made), Py_NewRef(objects_[root])) < 0) {
      Py_DECREF(made);
      return nullptr;
    }
    return made;
  }

  bool callback(const Call& call, void** pointers) override {
    PyEval_RestoreThread(thread_);
    const bool well = python(call, pointers);
    thread_ = PyEval_SaveThread();
    return well;
  }

  void release(const std::vector<int>& slots) override {
    PyEval_RestoreThread(thread_);
    for (int slot : slots) Py_CLEAR(objects_[slot]);
    thread_ = PyEval_SaveThread();
  }

  void reached(std::size_t at) override {
    for (int number : ready_[at]) early_->reached(number);
  }

  bool python(const Call& call, void** pointers) {
    PyObject* given = PyTuple_New(static_cast<Py_ssize_t>(call.in.size()));
    if (given == nullptr) return false;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      PyObject* array = array_of(call.in[i]);
      if (array == nullptr) {
        Py_DECREF(given);
        return false;
      }
      PyTuple_SET_ITEM(given, static_cast<Py_ssize_t>(i), array);
    }
    PyObject* args[] = {device_, given};
    PyObject* made = PyObject_Vectorcall(callbacks_[call.callback].ptr(), args, 2, nullptr);
    Py_DECREF(given);
    if (made == nullptr) return false;
    const bool well = take(call, made, pointers);
    Py_DECREF(made);
    return well;
  }

  // Keep what a callback returned as the memory of its output slots.
  bool take(const Call& call, PyObject* made, void** pointers) {
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

  static bool fits(PyObject* array, const Desc& desc) {
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

  // Whether an array is a view of an input whose memory is used for something else later.
  bool shows_temporary(const Call& call, PyArrayObject* array, void** pointers) const {
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

  // Every number that a run uses as an index is one; a wrong plan must not write anywhere.
  void check(const Spent& spent) {
    const int count = static_cast<int>(program_.slots.size());
    auto known = [&](int slot) { return slot >= 0 && slot < count; };
    for (const auto& [input, offset] : spent) {
      if (!known(input) || program_.slots[input].place != Place::input ||
          !program_.slots[input].known || offset < 0) {
        throw nb::value_error("Program: what is spent is no input");
      }
      room_ = std::max(room_, offset + program_.slots[input].desc.bytes());
    }
    for (const Slot& slot : program_.slots) {
      bool well = slot.where >= 0;
      if (slot.place == Place::arena) {
        well = well && slot.known &&
               static_cast<std::size_t>(slot.where + slot.desc.bytes()) <= program_.arena_bytes;
      } else if (slot.place == Place::kept) {
        well = well && slot.known && slot.where + slot.desc.bytes() <= room_;
      } else if (slot.place == Place::alias) {
        well = well && slot.known && known(static_cast<int>(slot.where));
        const Slot& root = program_.slots[well ? slot.where : 0];
        well = well && root.place != Place::alias &&
               (!root.known || slot.desc.bytes() <= root.desc.bytes());
      } else if (slot.place == Place::output) {
        well = well && slot.known;
      }
      if (!well) throw nb::value_error("Program: a slot lies outside");
    }
    for (const Call& call : program_.calls) {
      bool well = true;
      for (int slot : call.in) well = well && known(slot);
      for (int slot : call.out) well = well && (known(slot) || (slot == -1 && !call.step));
      for (int slot : call.free) well = well && known(slot);
      if (call.step) {
        well = well && call.scratch >= 0 &&
               call.scratch + call.step->scratch() <= program_.arena_bytes;
      }
      if (!well) throw nb::value_error("Program: a step names a slot that does not exist");
    }
    for (int slot : program_.returned) {
      if (!known(slot)) throw nb::value_error("Program: a result is no slot");
    }
  }

  Program program_;
  std::vector<std::shared_ptr<Step>> drawing_;
  std::vector<nb::object> callbacks_;
  std::vector<std::string> labels_;  // of each call
  std::size_t visible_;
  static constexpr int64_t kWorthKeeping = 64 << 10;  // bytes
  std::vector<int64_t> kept_at_;  // of each slot: where in the block of what is kept; -1: not there
  std::size_t kept_bytes_ = 0;
  std::vector<char> temporary_;  // of each slot: its memory may be used for something else later
  int home_ = 0;  // one of the spent inputs, and where it lies in the block of what was kept
  int64_t home_offset_ = 0, room_ = 0;  // room_: bytes of that block
  bool apart_ = true;  // the results cannot share memory
  bool may_wait_ = false;  // a run needs no Python once its arrays are there
  std::vector<std::vector<int>> ready_;  // the results that are there after each call
  Early* early_ = nullptr;               // who is told of it in this run
  static constexpr int kMeasured = 3;  // runs before one is queued
  std::atomic<int> runs_{0};
  std::atomic<double> seconds_{0};
  std::mutex running_;
  std::atomic<std::thread::id> owner_{};
  // of the run under way
  std::vector<PyObject*> objects_;
  std::vector<void*> pointers_;
  char* arena_ = nullptr;
  std::unordered_set<PyObject*> buffers_;
  PyObject* device_ = nullptr;
  PyThreadState* thread_ = nullptr;
};

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
      const Desc& desc = program_.slots[index].desc;
      array = PyArray_New(&PyArray_Type, desc.ndim(),
                          reinterpret_cast<const npy_intp*>(desc.shape.data()),
                          numpy_type(desc.dtype), nullptr, work->pointers[root], 0,
                          NPY_ARRAY_CARRAY, nullptr);
      if (array == nullptr) return nullptr;
      if (PyArray_SetBaseObject(as_array(array), Py_NewRef(arrays[root])) < 0) {
        Py_DECREF(array);
        return nullptr;
      }
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

// The programs of one graph by the types and shapes of its inputs.
class Programs {
 public:
  // `make(inputs, spent)` makes a PyProgram for arrays like these, or returns None: there is none.
  // `written`: the inputs that the graph writes to.
  Programs(nb::object make, std::vector<int> written, std::size_t most)
      : make_(std::move(make)), written_(std::move(written)), most_(most) {}

  // Results as a tuple, or None where there is no program for such inputs.
  nb::object call(nb::sequence inputs, nb::handle device) {
    Ahead* asked = std::exchange(ahead, nullptr);
    Spending* spends = nullptr;
    if (spending != nullptr && reinterpret_cast<std::uintptr_t>(spending->op) == gradient_of_) {
      spends = std::exchange(spending, nullptr);
    }
    nb::object fast = nb::steal(PySequence_Fast(inputs.ptr(), "a sequence of arrays"));
    if (!fast.is_valid()) throw nb::python_error();
    std::vector<nb::object> copies;
    const std::size_t count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
    PyObject** items = PySequence_Fast_ITEMS(fast.ptr());
    if (!all_dense(items, count)) {
      for (std::size_t i = 0; i < count; ++i) {
        if (!PyArray_Check(items[i])) return nb::none();
        copies.push_back(nb::borrow(items[i]));
        if (is_dense(as_array(items[i]))) continue;
        if (std::find(written_.begin(), written_.end(), static_cast<int>(i)) != written_.end()) {
          return nb::none();
        }
        PyObject* dense = PyArray_NewCopy(as_array(items[i]), NPY_CORDER);
        if (dense == nullptr) throw nb::python_error();
        copies.back() = nb::steal(dense);
        if (!is_dense(as_array(dense))) return nb::none();
      }
    }
    std::vector<PyObject*> arrays(items, items + count);
    for (std::size_t i = 0; i < copies.size(); ++i) arrays[i] = copies[i].ptr();
    const Spent spent = spends != nullptr ? spendable(arrays) : Spent{};
    std::shared_ptr<PyProgram> program = find(arrays.data(), count, spent);
    if (!program) return nb::none();
    const bool later = asked != nullptr && copies.empty() && program->worth_queueing();
    if (later) wait_for_room(program->kept_bytes());
    Targets targets;
    for (std::size_t i = 0; spends != nullptr && i < input_of_.size(); ++i) {
      const auto& target = spends->targets.at(static_cast<std::size_t>(input_of_[i]));
      const bool taken = target.array != nullptr && (later || !target.var->used()) &&
                         lies_apart(target.array, arrays);
      targets.push_back(taken ? target.array : nullptr);
      // one that is not in use is marked when the walk has it handed out, as early as it is there
      if (taken && later && target.var->used()) asked->writes.push_back(target.var);
    }
    if (spends != nullptr) spends->begun = !spent.empty();
    PyObject* made = later ? program->queue(arrays.data(), device.ptr(), *asked, &targets)
                           : program->run(arrays.data(), device.ptr(), &targets);
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
  }

  // NDArrays in: where their program is worth it, it is queued, and the answer is (results, variables
  // of the inputs and the one of the results). None: not for this path, nothing has happened.
  nb::object queue(nb::sequence inputs, nb::handle device) {
    if (worth_queueing() == std::numeric_limits<double>::infinity()) return nb::none();
    nb::object fast = nb::steal(PySequence_Fast(inputs.ptr(), "a sequence of arrays"));
    if (!fast.is_valid()) throw nb::python_error();
    const std::size_t count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
    PyObject** items = PySequence_Fast_ITEMS(fast.ptr());
    std::vector<PyObject*> arrays;
    std::vector<nb::object> held;  // the GIL may be given up on the way
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_plain(items[i])) return nb::none();
      PyObject *ctx = slot(items[i], kCtx), *first = slot(items[0], kCtx);
      const int same = ctx == first ? 1 : PyObject_RichCompareBool(ctx, first, Py_EQ);
      if (same < 0) throw nb::python_error();
      if (!same) return nb::none();
      arrays.push_back(slot(items[i], kData));
      held.push_back(nb::borrow(arrays.back()));
    }
    if (!all_dense(arrays.data(), count)) return nb::none();
    std::shared_ptr<PyProgram> program = find(arrays.data(), count, {});
    if (!program || !program->worth_queueing()) return nb::none();
    wait_for_room(program->kept_bytes());
    nb::object vars = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(count + 1)));
    nb::object results = nb::steal(new_var());
    Ahead asked;
    asked.results = var_of(results.ptr());
    for (std::size_t i = 0; i < count; ++i) {
      PyObject* var = variable_of(items[i]);
      if (var_of(var)->marked()) return nb::none();  // has an error to tell
      const bool written =
          std::find(written_.begin(), written_.end(), static_cast<int>(i)) != written_.end();
      (written ? asked.writes : asked.reads).push_back(var_of(var));
      PyTuple_SET_ITEM(vars.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(var));
    }
    PyTuple_SET_ITEM(vars.ptr(), static_cast<Py_ssize_t>(count), results.release().ptr());
    PyObject* made = program->queue(arrays.data(), device.ptr(), asked);
    if (made == nullptr) throw nb::python_error();
    return nb::make_tuple(nb::steal(made), vars);
  }

  nb::list list() const {
    nb::list made;
    for (const Known& each : known_) made.append(nb::cast(each.program));
    return made;
  }

  // These are the programs of the gradient of `op`, given as its address; for each of their
  // results, the input of the operator whose gradient it is.
  void serve(std::uintptr_t op, std::vector<int> input_of) {
    gradient_of_ = op;
    input_of_ = std::move(input_of);
  }

  nb::object make_;

 private:
  struct Known {
    std::vector<int64_t> signature;
    Spent spent;
    std::shared_ptr<PyProgram> program;  // null: there is none
  };

  // The arrays among these that make up all that is left of one block of kept ones.
  static Spent spendable(const std::vector<PyObject*>& arrays) {
    PyObject* block = nullptr;
    Spent found;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      std::size_t offset;
      PyObject* own = block_of(arrays[i], &offset);
      if (own == nullptr || (block != nullptr && own != block)) continue;
      block = own;
      found.emplace_back(static_cast<int>(i), static_cast<int64_t>(offset));
    }
    const auto known = static_cast<Py_ssize_t>(found.size());
    return block != nullptr && Py_REFCNT(block) == known ? found : Spent{};
  }

  // Whether an array shares no memory with these.
  static bool lies_apart(PyObject* array, const std::vector<PyObject*>& others) {
    auto begin = [](PyObject* each) {
      return reinterpret_cast<std::uintptr_t>(PyArray_DATA(as_array(each)));
    };
    auto end = [&](PyObject* each) {
      return begin(each) + static_cast<std::uintptr_t>(PyArray_NBYTES(as_array(each)));
    };
    return std::none_of(others.begin(), others.end(), [&](PyObject* other) {
      return begin(array) < end(other) && begin(other) < end(array);
    });
  }

  static bool all_dense(PyObject** items, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!PyArray_Check(items[i]) || !is_dense(as_array(items[i]))) return false;
    }
    return true;
  }

  static bool matches(const std::vector<int64_t>& signature, PyObject** items, std::size_t count) {
    const int64_t* at = signature.data();
    for (std::size_t i = 0; i < count; ++i) {
      PyArrayObject* array = as_array(items[i]);
      const int ndim = PyArray_NDIM(array);
      if (*at++ != PyArray_TYPE(array) * 64 + ndim) return false;
      for (int d = 0; d < ndim; ++d) {
        if (*at++ != PyArray_DIM(array, d)) return false;
      }
    }
    return true;
  }

  std::shared_ptr<PyProgram> find(PyObject** items, std::size_t count, const Spent& spent) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (!matches(known_[i].signature, items, count) || known_[i].spent != spent) continue;
      if (i != 0) std::rotate(known_.begin(), known_.begin() + i, known_.begin() + i + 1);
      return known_[0].program;
    }
    Known fresh;
    fresh.spent = spent;
    nb::list given;
    for (std::size_t i = 0; i < count; ++i) {
      PyArrayObject* array = as_array(items[i]);
      fresh.signature.push_back(PyArray_TYPE(array) * 64 + PyArray_NDIM(array));
      for (int d = 0; d < PyArray_NDIM(array); ++d) {
        fresh.signature.push_back(PyArray_DIM(array, d));
      }
      given.append(nb::borrow(items[i]));
    }
    nb::object made = make_(given, spent);
    if (!made.is_none()) fresh.program = nb::cast<std::shared_ptr<PyProgram>>(made);
    known_.insert(known_.begin(), fresh);
    if (known_.size() > most_) known_.pop_back();
    return fresh.program;
  }

  std::vector<Known> known_;
  std::vector<int> written_, input_of_;
  std::size_t most_;
  std::uintptr_t gradient_of_ = 0;
};

// A graph, its Programs and the callbacks refer to one another: the collector must see that.
int programs_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<Programs>(self)->make_.ptr());
  return 0;
}

int programs_clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Programs>(self)->make_.reset();
  return 0;
}

PyType_Slot programs_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(programs_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(programs_clear)},
    {0, nullptr},
};

const Core kCore = {&enter_kernel, &team_size, &team_awake, &team_rest, &team_run};

std::string isa() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3")) return "x86-64-v3";
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "generic";
#endif
}

}  // namespace

NB_MODULE(_core, m) {
  if (_import_array() < 0) throw nb::python_error();
  // The threads of the pool do not exist in a forked child: there one thread does the work.
  pthread_atfork(nullptr, nullptr, [] { omp_set_num_threads(1); });
  nb::set_leak_warnings(false);  // what lives as long as the process is no leak
  m.doc() = "The native core: prepared steps, programs of them, pooled memory.";
  nb::class_<PyStep>(m, "Step", "One prepared call of an operator.")
      .def("run", &step_run, nb::arg("inputs"), nb::arg("outputs"),
           "Compute into given dense arrays.")
      .def("__call__", &step_call, nb::arg("inputs"), "Compute; a tuple of fresh arrays.")
      .def("seed", [](PyStep& self, uint64_t key, uint64_t run) { self.step->seed = {key, run}; },
           nb::arg("key"), nb::arg("run"), "What the next run draws from.")
      .def("scratch", [](const PyStep& self) { return self.step->scratch(); })
      .def("inplace", [](const PyStep& self, int input, int output) {
        return self.step->inplace(input, output);
      });
  nb::class_<Source>(m, "Source", "A device's random stream for native steps.")
      .def(nb::init<uint64_t>(), nb::arg("key"))
      .def("next", [](Source& self) {
        const Seed seed = self.next();
        return nb::make_tuple(seed.key, seed.run);
      }, "(key, run) of one run that draws.");
  nb::class_<PyProgram>(m, "Program", "Steps over slots, run by one call.")
      .def(nb::init<nb::list, nb::list, std::vector<int>, std::size_t, std::size_t, Spent>(),
           nb::arg("slots"), nb::arg("calls"), nb::arg("returned"), nb::arg("arena_bytes"),
           nb::arg("visible"), nb::arg("spent"))
      .def_prop_ro("arena_bytes", &PyProgram::arena_bytes)
      .def_prop_ro("native", &PyProgram::native_calls)
      .def_prop_ro("callbacks", &PyProgram::callback_calls)
      .def("callback_names", &PyProgram::callback_names,
           "The operators that run as Python bodies, in order.")
      .def("measure", &PyProgram::measure, nb::arg("on"),
           "Keep count of the time each call takes from now on, or no more.")
      .def("times", &PyProgram::times, "(operator, seconds so far) of each call, in order.");
  nb::class_<Programs>(m, "Programs", "The programs of one graph by signature.",
                       nb::type_slots(programs_slots))
      .def(nb::init<nb::object, std::vector<int>, std::size_t>(), nb::arg("make"),
           nb::arg("written"), nb::arg("most") = 64)
      .def("__call__", &Programs::call, nb::arg("inputs"), nb::arg("device"))
      .def("queue", &Programs::queue, nb::arg("inputs"), nb::arg("device"))
      .def("serve", &Programs::serve, nb::arg("op"), nb::arg("input_of"))
      .def("list", &Programs::list);
  m.def("make_step", &py_make_step, nb::arg("op_name"), nb::arg("inputs"), nb::arg("outputs"),
        nb::arg("attrs"), nb::sig("def make_step(op_name: str, inputs: list, outputs: list, "
                                  "attrs: dict) -> Step | None"),
        "A Step for (dtype, shape) descriptions, or None.");
  m.def("kernels", [] {
    nb::dict made;
    for (const auto& [name, list] : kernels()) made[name.c_str()] = list.size();
    return made;
  });
  m.def("isa", &isa);
  m.def("threads", &omp_get_max_threads);
  m.def("set_threads", [](int threads) {
    omp_set_num_threads(threads);
    team_resize(threads);
  });
  m.def("pool_stats", [] {
    const PoolStats stats = pool_stats();
    nb::dict made;
    made["used"] = stats.used;
    made["idle"] = stats.idle;
    made["limit"] = stats.limit;
    made["fresh"] = stats.fresh;
    made["reused"] = stats.reused;
    return made;
  });
  m.def("pool_limit", &pool_limit, nb::arg("bytes"));
  m.attr("core") = nb::steal(PyCapsule_New(const_cast<Core*>(&kCore), kCoreCapsule, nullptr));
  enter_memory(m.ptr());
  enter_eager(m.ptr());
  enter_kvstore(m.ptr());
  enter_walk(m.ptr());
  enter_engine(m.ptr());
  enter_updates(m.ptr());
}
