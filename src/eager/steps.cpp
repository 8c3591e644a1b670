// Prepared Steps of an operator by the types and shapes of its inputs and by its attributes.
#include <unordered_map>

#include "eager/eager.h"
#include "given.h"
#include "isa.h"
#include "pystep.h"
#include "random.h"

namespace nb = nanobind;

namespace mg {
namespace {

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

}  // namespace

void enter_steps(PyObject* raw_module) {
  nb::module_ module = nb::borrow<nb::module_>(raw_module);
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
