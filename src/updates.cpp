// Many weights updated by one call: an optimizer's rule prepared for all weights of a context, run
// without the GIL as one range of elements that is shared out between threads.
//
// What is unusual (a stale gradient, counts that differ, an array that was replaced by another kind)
// is found before anything is changed and left to the optimizer's own update().
#include <algorithm>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "away.h"
#include "eager/eager.h"
#include "engine/ahead.h"
#include "kernels/update.h"
#include "parallel.h"
#include "pystep.h"

namespace nb = nanobind;

namespace mg {
namespace {

constexpr int kArrays = 5;  // weight, gradient, at most three states

struct Row {
  nb::object index, leaf, state;  // leaf: None where the gradient was given apart
  std::vector<nb::object> arrays;
  DType dtype;
  npy_intp size;
  double lr_mult, wd_mult;
};

// The raw array of an NDArray if it is dense, of this type and size; waits for what is pending,
// unless its use will be queued.
PyArrayObject* raw_of(PyObject* array, bool written, DType dtype, npy_intp size,
                      bool queued = false) {
  if (!is_plain(array)) return nullptr;
  queued = queued && !var_of(variable_of(array))->marked();
  if (!queued && (written ? !is_unused(array) : !is_idle(array))) {
    nb::handle(array).attr(written ? "_to_write" : "_sync")();
  }
  PyObject* data = slot(array, kData);
  if (data == nullptr || !PyArray_CheckExact(data)) return nullptr;
  PyArrayObject* raw = as_array(data);
  const bool fits = dtype_of(PyArray_TYPE(raw)) == static_cast<int>(dtype) &&
                    PyArray_SIZE(raw) == size && is_dense(raw) && PyArray_ISWRITEABLE(raw);
  return fits ? raw : nullptr;
}

class Updates {
 public:
  explicit Updates(const UpdateRule& rule) : rule_(rule) {}
  Updates(const Updates&) = delete;

  // One more weight; false: not for this path.
  bool add(nb::handle row) {  // (index, weight, grad, state, lr_mult, wd_mult, own gradient?)
    nb::object weight = nb::borrow(row[1]), grad = nb::borrow(row[2]);
    Row made{nb::borrow(row[0]), nb::none(), nb::borrow(row[3]), {weight, grad}, DType::f32, 0,
             nb::cast<double>(row[4]), nb::cast<double>(row[5])};
    if (made.state.ptr() != Py_None) {
      if (PyTuple_Check(made.state.ptr()) || PyList_Check(made.state.ptr())) {
        for (nb::handle each : made.state) made.arrays.push_back(nb::borrow(each));
      } else {
        made.arrays.push_back(made.state);
      }
    }
    if (made.arrays.size() != static_cast<std::size_t>(2 + rule_.states) || !is_plain(weight.ptr())) {
      return false;
    }
    PyObject* data = slot(weight.ptr(), kData);
    if (data == nullptr || !PyArray_CheckExact(data)) return false;
    const int type = dtype_of(PyArray_TYPE(as_array(data)));
    if (type != static_cast<int>(DType::f32) && type != static_cast<int>(DType::f64)) return false;
    made.dtype = static_cast<DType>(type);
    made.size = PyArray_SIZE(as_array(data));
    for (std::size_t i = 0; i < made.arrays.size(); ++i) {
      if (raw_of(made.arrays[i].ptr(), i != 1, made.dtype, made.size) == nullptr) return false;
      for (std::size_t k = 0; k < i; ++k) {
        if (slot(made.arrays[i].ptr(), kData) == slot(made.arrays[k].ptr(), kData)) return false;
      }
    }
    if (nb::cast<bool>(row[6])) {
      PyObject* leaf = slot(weight.ptr(), kAg);
      if (leaf == nullptr || Py_TYPE(leaf) != leaf_type) return false;
      made.leaf = nb::borrow(leaf);
    }
    rows_.push_back(std::move(made));
    return true;
  }

  // The number that this update will have for every weight; 0: a gradient is stale or counts
  // differ; -1: what was prepared is not what is there now. Nothing is changed.
  int64_t ready(nb::handle states, nb::handle counts, int64_t begin) {
    if (busy_ || !PyDict_Check(states.ptr()) || !PyDict_Check(counts.ptr())) return -1;
    bool fresh = true;
    int64_t common = -1;
    plan_.pointers.clear();
    pending_ = worth_queueing() < 1e9 && any_used();
    for (const Row& row : rows_) {
      if (row.leaf.ptr() != Py_None) {
        if (slot(row.arrays[0].ptr(), kAg) != row.leaf.ptr()) return -1;
        auto* leaf = reinterpret_cast<TapeLeaf*>(row.leaf.ptr());
        if (leaf->at[kLeafGrad] != row.arrays[1].ptr()) return -1;
        fresh = fresh && leaf->at[kLeafFresh] == Py_True;
      }
      if (PyDict_GetItemWithError(states.ptr(), row.index.ptr()) != row.state.ptr()) return -1;
      for (std::size_t i = 0; i < row.arrays.size(); ++i) {
        PyArrayObject* raw = raw_of(row.arrays[i].ptr(), i != 1, row.dtype, row.size, pending_);
        if (raw == nullptr) return -1;
        plan_.pointers.push_back(PyArray_DATA(raw));
      }
      PyObject* count = PyDict_GetItemWithError(counts.ptr(), row.index.ptr());
      const int64_t now = count == nullptr ? begin : PyLong_AsLongLong(count);
      if (common >= 0 && now != common) fresh = false;
      common = now;
    }
    if (PyErr_Occurred()) throw nb::python_error();
    return fresh ? common + 1 : 0;
  }

  // Update all with the rates lr * lr_mult * factor and wd * wd_mult. `ready` came just before.
  void run(nb::handle counts, int64_t count, double lr, double factor, double wd, nb::dict attrs) {
    plan(lr, factor, wd, attrs);
    nb::object number = nb::steal(PyLong_FromLongLong(count));
    for (const Row& row : rows_) {
      if (PyDict_SetItem(counts.ptr(), row.index.ptr(), number.ptr()) < 0) throw nb::python_error();
      if (row.leaf.ptr() != Py_None) {
        auto* leaf = reinterpret_cast<TapeLeaf*>(row.leaf.ptr());
        Py_XSETREF(leaf->at[kLeafFresh], Py_NewRef(Py_False));
      }
    }
    if (pending_) {
      queue();
      return;
    }
    if (plan_.total < 4096) {
      plan_.sweep(0, plan_.total);
      return;
    }
    std::vector<nb::object> kept;  // a backward elsewhere may give the gradients other arrays
    for (const Row& row : rows_) {
      for (const nb::object& array : row.arrays) {
        kept.push_back(nb::borrow(slot(array.ptr(), kData)));
      }
    }
    busy_ = true;
    {
      Away away;
      plan_.run();
    }
    busy_ = false;
  }

  std::size_t size() const { return rows_.size(); }

 private:
  struct Variant {  // one sequence of instructions for one type
    DType dtype;
    std::vector<elementwise::Instruction> code;
    std::unique_ptr<elementwise::Sweep> sweep;
  };
  struct Numbers {  // of one pair of rates
    double lr, wd;
    DType dtype;
    const elementwise::Sweep* sweep;
    std::vector<double> values;
    DirectUpdate direct;
  };

  // What one update does. Copied for one that is queued.
  struct Plan {
    std::vector<Numbers> numbers;
    std::vector<std::size_t> chosen;  // for each weight
    std::vector<int64_t> begins;      // of each weight in the common range, then the end of all
    std::vector<void*> pointers;
    int64_t total = 0;
    double cost = 0;
    int states = 0;

    void run() const {
      parallel_for(total, cost, [this](int64_t begin, int64_t end) { sweep(begin, end); }, 1024);
    }

    void sweep(int64_t begin, int64_t end) const {
      auto found = std::upper_bound(begins.begin(), begins.end() - 1, begin);
      const int arrays = 2 + states;
      for (auto i = static_cast<std::size_t>(found - begins.begin()) - 1;
           i < chosen.size() && begins[i] < end; ++i) {
        const int64_t from = std::max(begin, begins[i]) - begins[i];
        const int64_t to = std::min(end, begins[i + 1]) - begins[i];
        if (from >= to) continue;
        void* const* in = pointers.data() + i * static_cast<std::size_t>(arrays);
        const Numbers& own = numbers[chosen[i]];
        if (own.direct.run) {
          auto at = [&](int k) { return static_cast<float*>(in[k]) + from; };
          own.direct.run(at(0), at(1), at(2), to - from, own.direct.numbers);
          continue;
        }
        void* out[kArrays] = {in[0]};
        for (int k = 0; k < states; ++k) out[1 + k] = in[2 + k];
        own.sweep->run(in, out, from, to, own.values.data());
      }
    }
  };

  // An update that waits until its gradients are there.
  struct Queued : Work {
    FaultPtr run() override {
      omp_set_num_threads(threads);
      plan.run();
      return nullptr;
    }
    ~Queued() override {
      for (PyObject* each : kept) bury(each);
    }
    Plan plan;
    std::vector<PyObject*> kept;
    int threads = 1;
  };

  bool any_used() const {
    for (const Row& row : rows_) {
      for (const nb::object& array : row.arrays) {
        if (is_plain(array.ptr()) && !is_unused(array.ptr())) return true;
      }
    }
    return false;
  }

  void queue() {
    auto work = std::make_unique<Queued>();
    work->plan = plan_;
    work->threads = omp_get_max_threads();
    work->kept.push_back(nb::find(this).release().ptr());
    std::vector<VarPtr> reads, writes;
    for (const Row& row : rows_) {
      for (std::size_t i = 0; i < row.arrays.size(); ++i) {
        PyObject* array = row.arrays[i].ptr();
        (i == 1 ? reads : writes).push_back(var_of(variable_of(array)));
        work->kept.push_back(Py_NewRef(slot(array, kData)));
      }
    }
    PushOptions options;
    options.what = "an update of weights";
    engine().push(std::move(work), std::move(reads), std::move(writes), options);
  }

  static bool same(const std::vector<elementwise::Instruction>& a,
                   const std::vector<elementwise::Instruction>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].word != b[i].word || a[i].count != b[i].count) return false;
      for (int k = 0; k < a[i].count; ++k) {
        if (a[i].operands[k].kind != b[i].operands[k].kind ||
            a[i].operands[k].index != b[i].operands[k].index) {
          return false;
        }
      }
    }
    return true;
  }

  // Which sweep with which numbers each weight gets, and where it begins in the common range.
  void plan(double lr, double factor, double wd, nb::dict attrs) {
    const int alike =
        attrs_.is_valid() ? PyObject_RichCompareBool(attrs_.ptr(), attrs.ptr(), Py_EQ) : 0;
    if (alike < 0) throw nb::python_error();
    if (!alike) {
      given_ = Attrs();
      for (auto [name, value] : attrs) {
        if (PyLong_CheckExact(value.ptr())) {
          given_.set(nb::cast<std::string>(name), nb::cast<int64_t>(value));
          continue;
        }
        const double number = PyFloat_AsDouble(value.ptr());
        if (number == -1.0 && PyErr_Occurred()) throw nb::python_error();
        given_.set(nb::cast<std::string>(name), number);
      }
      attrs_ = nb::steal(PyDict_Copy(attrs.ptr()));
    } else if (lr == lr_ && factor == factor_ && wd == wd_) {
      return;
    }
    lr_ = lr, factor_ = factor, wd_ = wd;
    plan_.numbers.clear();
    plan_.numbers.reserve(rows_.size());
    plan_.chosen.clear();
    plan_.begins.clear();
    plan_.total = 0;
    plan_.cost = 0;
    plan_.states = rule_.states;
    std::vector<Numbers>& known = plan_.numbers;
    for (const Row& row : rows_) {
      const double own_lr = lr * row.lr_mult * factor, own_wd = wd * row.wd_mult;
      std::size_t at = 0;
      while (at < known.size() && (known[at].lr != own_lr || known[at].wd != own_wd ||
                                   known[at].dtype != row.dtype)) {
        ++at;
      }
      if (at == known.size()) known.push_back(numbers_for(own_lr, own_wd, row.dtype));
      plan_.chosen.push_back(at);
      plan_.begins.push_back(plan_.total);
      plan_.total += row.size;
      plan_.cost = std::max(plan_.cost, known[at].sweep->cost());
    }
    plan_.begins.push_back(plan_.total);
  }

  Numbers numbers_for(double lr, double wd, DType dtype) {
    given_.set("lr", lr);
    given_.set("wd", wd);
    elementwise::Program program = rule_.program(given_);
    program.inputs = 2 + rule_.states;
    const bool direct = rule_.direct && dtype == DType::f32;
    Numbers made{lr, wd, dtype, nullptr, program.numbers,
                 direct ? rule_.direct(given_) : DirectUpdate{nullptr, {}}};
    for (const Variant& variant : variants_) {
      if (variant.dtype == dtype && same(variant.code, program.code)) {
        made.sweep = variant.sweep.get();
        return made;
      }
    }
    Variant fresh{dtype, program.code, nullptr};
    fresh.sweep = elementwise::make_sweep(std::move(program), dtype);
    bool well = fresh.sweep != nullptr && fresh.sweep->inplace(0, 0);
    for (int i = 0; well && i < rule_.states; ++i) well = fresh.sweep->inplace(2 + i, 1 + i);
    if (!well) throw std::runtime_error("Updates: a rule that cannot be run in place");
    made.sweep = fresh.sweep.get();
    variants_.push_back(std::move(fresh));
    return made;
  }

  UpdateRule rule_;
  std::vector<Row> rows_;
  std::vector<Variant> variants_;
  nb::object attrs_;
  Attrs given_;
  double lr_ = 0, factor_ = 0, wd_ = 0;
  Plan plan_;
  bool pending_ = false;  // the update that `ready` has looked at is queued
  bool busy_ = false;
};

// Updates for these weights, or None: not for this path.
nb::object make_updates(const std::string& op_name, nb::handle rows) {
  const UpdateRule* rule = find_update_rule(op_name);
  if (rule == nullptr) return nb::none();
  auto made = std::make_unique<Updates>(*rule);
  for (nb::handle row : rows) {
    if (!made->add(row)) return nb::none();
  }
  if (made->size() == 0) return nb::none();
  return nb::cast(made.release(), nb::rv_policy::take_ownership);
}

}  // namespace

void enter_updates(PyObject* raw_module) {
  nb::module_ module = nb::borrow<nb::module_>(raw_module);
  nb::class_<Updates>(module, "Updates", "A rule prepared for many weights.")
      .def("ready", &Updates::ready, nb::arg("states"), nb::arg("counts"), nb::arg("begin"))
      .def("run", &Updates::run, nb::arg("counts"), nb::arg("count"), nb::arg("lr"),
           nb::arg("factor"), nb::arg("wd"), nb::arg("attrs"))
      .def("__len__", &Updates::size);
  module.def("make_updates", &make_updates, nb::arg("op_name"), nb::arg("rows"));
}

}  // namespace mg
