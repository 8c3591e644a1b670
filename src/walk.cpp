// Going back over the tape: what tape.walk does, for raw arrays and without its overhead.
//
// Anything unusual (a graph that was used up, an operator without gradient, other kinds of heads) is
// found before anything is changed and left to tape.walk, which has the words for it.
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <nanobind/nanobind.h>

#include "eager/eager.h"
#include "engine/ahead.h"

namespace nb = nanobind;

namespace mg {
namespace {

PyObject *gradient_word, *single_word, *programs_word, *req_word, *grad_word, *fresh_word,
    *add_word, *write_word, *null_word, *wait_word;

PyObject* member(PyObject* entry, int which) {
  return reinterpret_cast<TapeEntry*>(entry)->at[which];
}

bool is_output(PyObject* source) { return Py_TYPE(source) == output_type; }

PyObject* entry_of(PyObject* output) { return reinterpret_cast<TapeOutput*>(output)->at[kEntry]; }

Py_ssize_t index_of(PyObject* output) {
  return PyLong_AsSsize_t(reinterpret_cast<TapeOutput*>(output)->at[kIndex]);
}

nb::object attribute(nb::handle object, PyObject* name) {
  PyObject* found = PyObject_GetAttr(object.ptr(), name);
  if (found == nullptr) throw nb::python_error();
  return nb::steal(found);
}

constexpr npy_intp kWorthTaking = 65536;  // bytes: less is copied sooner than given back

// Whether nobody but the one reference at hand knows this memory: no view, no capsule, no tape.
bool is_sole(PyArrayObject* array) {
  return Py_REFCNT(array) == 1 && PyArray_BASE(array) == nullptr &&
         PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA);
}

class Walk {
 public:
  // `may_queue`: backward graphs may be queued, where nothing in this walk reads what they make.
  Walk(PyObject* face_of, bool retain, bool may_queue)
      : face_of_(face_of), retain_(retain), may_queue_(may_queue) {}
  ~Walk() {
    ahead = nullptr;
    spending = nullptr;
  }

  // The entries below a source, each after those it depends on. False: not for this walk.
  bool order(PyObject* head) {
    if (!is_output(head)) return true;
    std::vector<std::pair<PyObject*, bool>> stack{{entry_of(head), false}};
    while (!stack.empty()) {
      auto [entry, expanded] = stack.back();
      stack.pop_back();
      if (expanded) {
        places_[entry] = entries_.size();
        entries_.push_back(nb::borrow(entry));
        continue;
      }
      if (!places_.emplace(entry, 0).second) continue;
      PyObject* sources = member(entry, kSources);
      if (Py_TYPE(entry) != entry_type || sources == nullptr || !PyTuple_Check(sources) ||
          !PyTuple_Check(member(entry, kInputs)) || !PyTuple_Check(member(entry, kOutputs))) {
        return false;
      }
      nb::object rule = attribute(member(entry, kOp), gradient_word);
      if (rule.is_none()) return false;
      stack.emplace_back(entry, true);
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sources); ++i) {
        PyObject* source = PyTuple_GET_ITEM(sources, i);
        if (is_output(source)) {
          stack.emplace_back(entry_of(source), false);
        } else if (source != Py_None) {
          below_.push_back(source);
        }
      }
    }
    return true;
  }

  // The variables of the graph that no gradient flows to (BlockGrad, a comparison).
  std::vector<nb::object> unmoved() {
    std::vector<PyObject*> moved, others;
    for (auto& [leaf, sum] : leaves) moved.push_back(leaf.ptr());
    std::sort(moved.begin(), moved.end());
    std::sort(below_.begin(), below_.end());
    below_.erase(std::unique(below_.begin(), below_.end()), below_.end());
    std::set_difference(below_.begin(), below_.end(), moved.begin(), moved.end(),
                        std::back_inserter(others));
    std::vector<nb::object> found;
    for (PyObject* leaf : others) {
      if (attribute(leaf, req_word).ptr() != null_word) found.push_back(nb::borrow(leaf));
    }
    return found;
  }

  void begin() {
    sums_.resize(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      sums_[i].resize(static_cast<std::size_t>(PyTuple_GET_SIZE(member(entries_[i].ptr(), kOutputs))));
    }
  }

  void give(PyObject* source, nb::object grad) {
    if (is_output(source)) {
      auto place = places_.find(entry_of(source));
      add(sums_[place->second].at(static_cast<std::size_t>(index_of(source))), std::move(grad));
      return;
    }
    for (auto& [leaf, sum] : leaves) {
      if (leaf.ptr() == source) {
        add(sum, std::move(grad));
        return;
      }
    }
    if (attribute(source, req_word).ptr() == null_word) return;
    leaves.emplace_back(nb::borrow(source), std::move(grad));
  }

  void run() {
    for (std::size_t at = entries_.size(); at-- > 0;) {
      through(entries_[at].ptr(), sums_[at], at == 0);
      sums_[at].clear();
      if (!retain_) drop(entries_[at].ptr());
    }
  }

  nb::handle face(PyObject* device) {
    if (device != device_ || !face_.is_valid()) {
      PyObject* found = PyObject_CallOneArg(face_of_, device);
      if (found == nullptr) throw nb::python_error();
      face_ = nb::steal(found);
      device_ = device;
    }
    return face_;
  }

  std::vector<std::pair<nb::object, nb::object>> leaves;
  // The variables of queued backward graphs, and their results: gradients of leaves, nothing else.
  std::vector<nb::object> pending;
  std::unordered_map<PyObject*, std::shared_ptr<Early>> late;

  // Wait for what was queued.
  void settle_all() {
    for (nb::object& var : std::exchange(pending, {})) attribute(var, wait_word)();
  }

 private:
  // Whether nobody else has this array or its memory.
  static bool is_own(PyObject* array) {
    while (array != nullptr && PyArray_CheckExact(array) && Py_REFCNT(array) == 1) {
      PyObject* base = PyArray_BASE(as_array(array));
      if (base == nullptr) return true;
      array = base;
    }
    return false;
  }

  // Whether a call's backward graph may be queued: its results go to leaves only, and the variables
  // of all it reads are known. Then nobody else has the gradients that it starts from.
  bool may_queue(PyObject* entry, std::vector<nb::object>& grads) const {
    PyObject* order = member(entry, kOrder);
    if (!may_queue_ || order == nullptr || !PyTuple_Check(order)) return false;
    PyObject* sources = member(entry, kSources);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sources); ++i) {
      if (is_output(PyTuple_GET_ITEM(sources, i))) return false;
    }
    for (nb::object& grad : grads) {
      if (!grad.is_valid() || is_own(grad.ptr())) continue;
      if (!PyArray_CheckExact(grad.ptr())) return false;
      grad = nb::steal(PyArray_NewCopy(as_array(grad.ptr()), NPY_CORDER));
      if (!grad.is_valid()) throw nb::python_error();
    }
    return true;
  }

  // The entry is used up.
  static void drop(PyObject* entry) {
    auto* row = reinterpret_cast<TapeEntry*>(entry);
    Py_XSETREF(row->at[kInputs], Py_NewRef(Py_None));
    Py_XSETREF(row->at[kOutputs], Py_NewRef(Py_None));
    Py_XSETREF(row->at[kOrder], Py_NewRef(Py_None));
  }

  // The gradient array of a leaf, if the next gradient may be computed right into it. Others may
  // hold it as long as no further call of this walk reads it (`last`).
  Spending::Target target(PyObject* leaf, bool last) const {
    for (const auto& [known, sum] : leaves) {
      if (known.ptr() == leaf) return {};  // there is a part of the sum already, perhaps in it
    }
    nb::object held = attribute(leaf, grad_word);
    if (held.is_none() || !is_plain(held.ptr()) || attribute(leaf, req_word).ptr() != write_word) {
      return {};
    }
    PyObject* raw = slot(held.ptr(), kData);
    if (!PyArray_CheckExact(raw)) return {};
    PyArrayObject* array = as_array(raw);
    if (PyArray_NBYTES(array) < kWorthTaking || !(last || is_sole(array)) || !is_dense(array) ||
        !PyArray_ISWRITEABLE(array)) {
      return {};
    }
    VarPtr var = var_of(variable_of(held.ptr()));
    if (var->marked()) return {};  // has an error to tell
    return {raw, std::move(var)};
  }

  void add(nb::object& sum, nb::object grad) {
    if (sum.is_valid()) settle_all();
    sum = sum.is_valid() ? attribute(face_, add_word)(sum, grad) : std::move(grad);
  }

  void through(PyObject* entry, std::vector<nb::object>& grads, bool last) {
    bool any = false;
    for (nb::object& grad : grads) any = any || grad.is_valid();
    if (!any) return;
    nb::object op = nb::borrow(member(entry, kOp));
    nb::object rule = attribute(op, gradient_word);
    nb::object sources = nb::borrow(member(entry, kSources));
    nb::object inputs = nb::borrow(member(entry, kInputs));
    nb::object outputs = nb::borrow(member(entry, kOutputs));
    if (!PyTuple_Check(inputs.ptr()) || !PyTuple_Check(outputs.ptr())) {
      // only if a rule has walked over the same graph meanwhile
      throw std::runtime_error("backward: the graph was used up by another backward");
    }
    Ahead asked;
    const bool queues = may_queue(entry, grads);
    if (queues) {
      PyObject* order = member(entry, kOrder);
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
        asked.reads.push_back(var_of(PyTuple_GET_ITEM(order, i)));
      }
    }
    nb::object dy, out;
    const bool single = attribute(op, single_word).ptr() == Py_True;
    if (single) {
      dy = std::move(grads[0]);
      out = nb::borrow(PyTuple_GET_ITEM(outputs.ptr(), 0));
    } else {
      nb::list list;
      for (nb::object& grad : grads) list.append(grad.is_valid() ? std::move(grad) : nb::none());
      dy = std::move(list);
      out = nb::steal(PySequence_List(outputs.ptr()));
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(inputs.ptr());
    std::vector<PyObject*> args{nullptr, face(member(entry, kDevice)).ptr(), dy.ptr(), out.ptr()};
    for (Py_ssize_t i = 0; i < count; ++i) args.push_back(PyTuple_GET_ITEM(inputs.ptr(), i));
    PyObject* attrs = member(entry, kAttrs);
    Spending spends;
    if (!retain_ && !attribute(op, programs_word).is_none()) {
      spends.op = op.ptr();
      std::unordered_set<PyObject*> met;
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* source = PyTuple_GET_ITEM(sources.ptr(), i);
        const bool may = source != Py_None && !is_output(source) && met.insert(source).second;
        Spending::Target place = may ? target(source, last) : Spending::Target{};
        if (place.array != nullptr && !met.insert(place.array).second) place = {};
        spends.targets.push_back(std::move(place));
      }
      spending = &spends;
    }
    nb::object results_var;
    if (queues) {
      results_var = nb::steal(new_var());
      asked.results = var_of(results_var.ptr());
      asked.wants_early = true;
      ahead = &asked;
    }
    PyObject* made = PyObject_VectorcallDict(
        rule.ptr(), args.data() + 1,
        static_cast<std::size_t>(count + 3) | PY_VECTORCALL_ARGUMENTS_OFFSET,
        attrs != nullptr && PyDict_GET_SIZE(attrs) > 0 ? attrs : nullptr);
    ahead = nullptr;
    spending = nullptr;
    if (made == nullptr && spends.begun) drop(entry);
    const bool queued = queues && (asked.results->used() || asked.results->marked());
    if (queued) pending.push_back(results_var);
    if (made == nullptr) throw nb::python_error();
    nb::object results = nb::steal(PySequence_Fast(made, "gradients"));
    Py_DECREF(made);
    if (!results.is_valid()) throw nb::python_error();
    if (PySequence_Fast_GET_SIZE(results.ptr()) != count) {
      throw nb::value_error("a gradient rule must give one gradient for each input");
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* source = PyTuple_GET_ITEM(sources.ptr(), i);
      PyObject* grad = PySequence_Fast_GET_ITEM(results.ptr(), i);
      if (queued) {
        late.insert_or_assign(grad, asked.early);  // an array that is gone may have had its address
      } else {
        late.erase(grad);
      }
      if (source != Py_None && grad != Py_None) give(source, nb::borrow(grad));
    }
  }

  PyObject* face_of_;
  bool retain_, may_queue_;
  nb::object face_;
  PyObject* device_ = nullptr;
  std::vector<nb::object> entries_;
  std::unordered_map<PyObject*, std::size_t> places_;
  std::vector<std::vector<nb::object>> sums_;
  std::vector<PyObject*> below_;  // the variables, as often as used; the entries hold them
};

// Whether one array can be copied into another byte by byte.
bool fits(PyArrayObject* to, PyArrayObject* from) {
  return PyArray_TYPE(to) == PyArray_TYPE(from) && is_dense(to) && is_dense(from) &&
         PyArray_ISWRITEABLE(to) && same_shape(to, from);
}

// Write a gradient into its variable's array: by a copy where that is all, else by `deliver`. A
// big one's memory takes the place of the old where neither is seen by anybody else.
void deliver_to(nb::handle leaf, nb::handle grad, nb::handle deliver) {
  nb::object held = attribute(leaf, grad_word);
  if (!held.is_none() && is_plain(held.ptr()) && is_unused(held.ptr()) &&
      attribute(leaf, req_word).ptr() == write_word) {
    PyObject* raw = slot(held.ptr(), kData);
    if (PyArray_CheckExact(raw) && PyArray_CheckExact(grad.ptr())) {
      PyArrayObject *to = as_array(raw), *from = as_array(grad.ptr());
      if (fits(to, from)) {
        if (to == from) {
          // it was computed in place
        } else if (PyArray_NBYTES(to) >= kWorthTaking && is_sole(to) && is_sole(from) &&
                   PyArray_ISWRITEABLE(from)) {
          Py_XSETREF(reinterpret_cast<Array*>(held.ptr())->at[kData], Py_NewRef(grad.ptr()));
        } else {
          std::memmove(PyArray_DATA(to), PyArray_DATA(from),
                       static_cast<std::size_t>(PyArray_NBYTES(to)));
        }
        if (PyObject_SetAttr(leaf.ptr(), fresh_word, Py_True) < 0) throw nb::python_error();
        return;
      }
    }
  }
  deliver(leaf, grad);
}

// One gradient that is not there yet: copied as soon as it is, though its program goes on.
struct Parcel {
  ItemPtr item;
  PyObject *to, *from;

  void operator()(FaultPtr fault) const {
    if (!fault && to != from) {  // else it was computed in place
      std::memcpy(PyArray_DATA(as_array(to)), PyArray_DATA(as_array(from)),
                  static_cast<std::size_t>(PyArray_NBYTES(as_array(to))));
    }
    bury(to), bury(from);
    engine().end(item, std::move(fault));
  }
};

// Gradients that are not there yet, copied into the arrays of their variables when they are: when
// all are, for those that cannot be told of one by one.
struct Delivery : Work {
  struct Copy {
    PyObject *to, *from;
  };
  FaultPtr run() override {
    for (const Copy& each : copies) {
      PyArrayObject *to = as_array(each.to), *from = as_array(each.from);
      std::memcpy(PyArray_DATA(to), PyArray_DATA(from), static_cast<std::size_t>(PyArray_NBYTES(to)));
    }
    return nullptr;
  }
  ~Delivery() override {
    for (const Copy& each : copies) bury(each.to), bury(each.from);
  }
  std::vector<Copy> copies;
};

// The raw array that a gradient can be copied into as it is; null: it is not that simple.
PyObject* target_of(nb::handle leaf, nb::handle grad) {
  nb::object held = attribute(leaf, grad_word);
  if (held.is_none() || !is_plain(held.ptr()) || attribute(leaf, req_word).ptr() != write_word) {
    return nullptr;
  }
  PyObject* raw = slot(held.ptr(), kData);
  if (!PyArray_CheckExact(raw) || !PyArray_CheckExact(grad.ptr())) return nullptr;
  const bool copied = fits(as_array(raw), as_array(grad.ptr()));
  return copied && !var_of(variable_of(held.ptr()))->marked() ? raw : nullptr;
}

// Queue the delivery of gradients that are not there yet; false: nothing was done, because one of
// them needs `deliver`.
bool queue_delivery(Walk& walk) {
  auto work = std::make_unique<Delivery>();
  std::vector<VarPtr> reads, writes;
  std::vector<nb::object> given;
  struct One {
    std::shared_ptr<Early> early;
    int number;
    VarPtr var;
    PyObject *to, *from;
  };
  std::vector<One> singly;
  std::unordered_set<void*> taken;
  for (auto& [leaf, grad] : walk.leaves) {
    auto found = walk.late.find(grad.ptr());
    if (found == walk.late.end()) continue;
    PyObject* raw = target_of(leaf, grad);
    if (raw == nullptr) return false;
    VarPtr var = var_of(variable_of(attribute(leaf, grad_word).ptr()));
    const std::shared_ptr<Early>& early = found->second;
    const int number = early ? early->number_of(grad.ptr()) : -1;
    if (number >= 0 && !var->used() && taken.insert(grad.ptr()).second &&
        taken.insert(var.get()).second) {
      singly.push_back({early, number, var, raw, grad.ptr()});
    } else {
      if (raw != grad.ptr()) work->copies.push_back({Py_NewRef(raw), Py_NewRef(grad.ptr())});
      writes.push_back(var);
    }
    given.push_back(leaf);
  }
  for (const One& one : singly) {
    const auto size = static_cast<std::size_t>(PyArray_SIZE(as_array(one.to)));
    ItemPtr item = engine().begin({one.var}, "gradient of " + std::to_string(size) + " elements");
    one.early->then(one.number, Parcel{item, Py_NewRef(one.to), Py_NewRef(one.from)});
  }
  for (nb::object& leaf : given) {
    if (PyObject_SetAttr(leaf.ptr(), fresh_word, Py_True) < 0) throw nb::python_error();
  }
  if (writes.empty()) return true;
  for (nb::object& var : walk.pending) reads.push_back(var_of(var.ptr()));
  PushOptions options;
  options.what = "gradients";
  engine().push(std::move(work), std::move(reads), std::move(writes), options);
  return true;
}

// The raw gradient a head starts with; null without an error: not for this walk.
PyObject* head_grad(PyObject* head, PyObject* given) {
  if (!is_plain(head) || !is_idle(head)) return nullptr;
  PyObject* ag = slot(head, kAg);
  PyObject* data = slot(head, kData);
  if (ag == nullptr || ag == Py_None || !PyArray_CheckExact(data)) return nullptr;
  PyArrayObject* array = as_array(data);
  if (given != Py_None) {
    if (!is_plain(given) || !is_idle(given) || !PyArray_CheckExact(slot(given, kData)) ||
        !same_shape(array, as_array(slot(given, kData)))) {
      return nullptr;
    }
    return Py_NewRef(slot(given, kData));
  }
  if (PyArray_TYPE(array) != NPY_FLOAT) return nullptr;
  PyObject* ones = fresh_array(NPY_FLOAT, PyArray_NDIM(array), PyArray_DIMS(array));
  if (ones == nullptr) throw nb::python_error();
  float* data_of = static_cast<float*>(PyArray_DATA(as_array(ones)));
  std::fill(data_of, data_of + PyArray_SIZE(array), 1.0f);
  return ones;
}

// The whole of run_backward; false where that has to do it itself (nothing has happened then).
bool backward(nb::list heads, nb::handle head_grads, bool retain, nb::handle face_of,
              nb::handle deliver) {
  const std::size_t count = heads.size();
  if (!head_grads.is_none() && (!PyList_Check(head_grads.ptr()) ||
                                static_cast<std::size_t>(PyList_GET_SIZE(head_grads.ptr())) != count)) {
    return false;
  }
  bool bare = true;  // no head gradients that their owner may change later
  for (std::size_t i = 0; i < count && !head_grads.is_none(); ++i) {
    bare = bare && PyList_GET_ITEM(head_grads.ptr(), i) == Py_None;
  }
  Walk walk(face_of.ptr(), retain, bare);
  std::vector<nb::object> grads;
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* given = head_grads.is_none() ? Py_None : PyList_GET_ITEM(head_grads.ptr(), i);
    PyObject* grad = head_grad(PyList_GET_ITEM(heads.ptr(), i), given);
    if (grad == nullptr) return false;
    grads.push_back(nb::steal(grad));
    if (!walk.order(slot(PyList_GET_ITEM(heads.ptr(), i), kAg))) return false;
  }
  walk.begin();
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* ag = slot(PyList_GET_ITEM(heads.ptr(), i), kAg);
    walk.face(is_output(ag) ? member(entry_of(ag), kDevice) : Py_None);
    walk.give(ag, std::move(grads[i]));
  }
  try {
    walk.run();
  } catch (...) {
    // what is queued may write right into gradients that nobody has been told of
    try {
      walk.settle_all();
    } catch (const nb::python_error&) {  // the first error counts
    }
    throw;
  }
  if (walk.pending.empty() || !queue_delivery(walk)) {
    walk.settle_all();
    walk.late.clear();
  }
  for (auto& [leaf, grad] : walk.leaves) {
    if (walk.late.count(grad.ptr()) == 0) deliver_to(leaf, grad, deliver);
  }
  for (nb::object& leaf : walk.unmoved()) deliver(leaf, nb::none());
  return true;
}

}  // namespace

void enter_walk(PyObject* raw_module) {
  wait_word = PyUnicode_InternFromString("wait");
  programs_word = PyUnicode_InternFromString("programs");
  gradient_word = PyUnicode_InternFromString("gradient");
  single_word = PyUnicode_InternFromString("single");
  req_word = PyUnicode_InternFromString("req");
  grad_word = PyUnicode_InternFromString("grad");
  fresh_word = PyUnicode_InternFromString("fresh");
  add_word = PyUnicode_InternFromString("elemwise_add");
  write_word = PyUnicode_InternFromString("write");
  null_word = PyUnicode_InternFromString("null");
  nb::module_ module = nb::borrow<nb::module_>(raw_module);
  module.def("backward", &backward, nb::arg("heads"), nb::arg("head_grads").none(),
             nb::arg("retain"), nb::arg("face_of"), nb::arg("deliver"));
}

}  // namespace mg
