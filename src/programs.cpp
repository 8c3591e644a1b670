// The programs of one graph, found by the types and shapes of what they are called with.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>

#include "eager/eager.h"
#include "pyprogram.h"

namespace mg {
namespace {

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

  // NDArrays in: where their program is worth it, it is queued, and the answer is (results,
  // variables of the inputs and the one of the results). None: not for this path, nothing happened.
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
      const bool coming = var_of(var)->writing();
      if (coming && !engine().orphan(*var_of(var)).empty()) return nb::none();  // cut off by a fork
      if (var_of(var)->marked()) return nb::none();  // has an error to tell
      const bool written =
          std::find(written_.begin(), written_.end(), static_cast<int>(i)) != written_.end();
      if (!written && coming) {
        asked.late.emplace_back(var_of(var), i);
      } else {
        (written ? asked.writes : asked.reads).push_back(var_of(var));
      }
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

}  // namespace

void enter_programs(PyObject* raw_module) {
  nb::module_ m = nb::borrow<nb::module_>(raw_module);
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
}

}  // namespace mg
