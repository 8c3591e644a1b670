// One run of a program, queued: in one piece, or in several where weights are still on their way.
#include "pyprogram.h"

#include <omp.h>

#include <algorithm>
#include <optional>

#include "pystep.h"
#include "random.h"

namespace mg {

bool PyProgram::worth_queueing() const {
  const double from = mg::worth_queueing();  // 0: all are queued, for tests
  return may_wait_ && (from <= 0 || (runs_ >= kMeasured && seconds_.load() >= from));
}

// What a run needs, alive until its last piece has run or is given up.
struct PyProgram::Queued {
  // Make the calls from `first` up to `end`.
  void run(std::size_t first, std::size_t end) {
    omp_set_num_threads(threads);
    std::lock_guard<std::mutex> hold(program->running_);
    for (std::size_t i = 0; i < seeds.size(); ++i) program->drawing_[i]->seed = seeds[i];
    if (first == 0) take_arena();
    const auto begin = Engine::Clock::now();
    program->early_ = early.get();
    program->watches = early != nullptr;
    program->program_.run(pointers.data(), *program, first, end);
    program->watches = false;
    took += Engine::Clock::now() - begin;
    if (end < program->program_.calls.size()) return;
    arena.reset();
    program->measured(took);
    if (early) early->close(nullptr);
  }

  void take_arena() {
    arena.emplace(program->program_.arena_bytes);
    for (std::size_t i = 0; i + 1 < pointers.size(); ++i) {
      const Slot& slot = program->program_.slots[i];
      if (slot.place == Place::arena) pointers[i] = arena->data() + slot.where;
    }
    pointers.back() = arena->data();
  }

  ~Queued() {
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
  std::optional<Arena> arena;
  std::chrono::duration<double> took{0};
  std::shared_ptr<Early> early;
  VarPtr results;
  int threads = 1;
};

// Some calls of a queued run, one after the other.
struct PyProgram::Piece : Work {
  FaultPtr run() override {
    // Somebody may have seen it meanwhile, so that it stops nothing any more.
    if (before && before->fault()) return before->fault();
    whole->run(first, end);
    return nullptr;
  }
  std::shared_ptr<Queued> whole;
  ItemPtr before;  // the piece before this one; null: this is the first
  std::size_t first = 0, end = 0;
};

PyObject* PyProgram::queue(PyObject* const* inputs, PyObject* device, Ahead& asked,
                           const Targets* targets) {
  auto work = std::make_shared<Queued>();
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
      array = array_over(work->pointers[root], program_.slots[index].desc, arrays[root]);
      if (array == nullptr) return nullptr;
    }
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), array);
  }
  if (!made.is_valid()) return nullptr;
  if (!drawing_.empty()) {
    Source& source = source_of_device(device);
    for (std::size_t i = 0; i < drawing_.size(); ++i) work->seeds.push_back(source.next());
  }
  if (!asked.results) asked.results = std::make_shared<Var>();
  if (asked.wants_early) {
    std::vector<PyObject*> results(program_.returned.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i] = PyTuple_GET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i));
    }
    work->early = asked.early = std::make_shared<Early>(std::move(results));
    work->results = asked.results;
  }
  push(std::move(work), asked, options);
  return made.release().ptr();
}

// Each piece runs after the one before, which it reads a variable of: so a fault stops what
// follows. The last one reads everything, so that nobody writes to an input before it has ended.
void PyProgram::push(std::shared_ptr<Queued> work, const Ahead& asked, PushOptions options) const {
  std::vector<Share> shares = shares_of(asked);
  const std::string what = options.what, of = " of " + std::to_string(shares.size()) + ")";
  VarPtr order;
  ItemPtr before;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const bool last = i + 1 == shares.size();
    if (shares.size() > 1) options.what = what + " (" + std::to_string(i + 1) + of;
    auto piece = std::make_unique<Piece>();
    piece->whole = work;
    piece->before = std::move(before);
    piece->first = shares[i].first;
    piece->end = last ? program_.calls.size() : shares[i + 1].first;
    std::vector<VarPtr> reads = std::move(shares[i].reads), writes = asked.writes;
    if (i == 0 || last) reads.insert(reads.end(), asked.reads.begin(), asked.reads.end());
    if (order) reads.push_back(order);
    if (last) {
      for (const auto& [var, input] : asked.late) reads.push_back(var);
      work.reset();
    }
    order = last ? asked.results : std::make_shared<Var>();
    writes.push_back(order);
    before = engine().push(std::move(piece), std::move(reads), std::move(writes),
                           last ? options : PushOptions{0, 0, 0, options.what});
  }
}

std::vector<PyProgram::Share> PyProgram::shares_of(const Ahead& asked) const {
  struct Late {
    std::size_t first;  // call that needs it
    int64_t bytes;
    VarPtr var;
  };
  std::vector<Late> late;
  int64_t bytes = 0;
  for (const auto& [var, input] : asked.late) {
    if (input >= needed_.size() || needed_[input].first >= program_.calls.size()) {
      continue;  // no call needs it: the last piece reads it
    }
    late.push_back({needed_[input].first, needed_[input].bytes, var});
    bytes += needed_[input].bytes;
  }
  std::stable_sort(late.begin(), late.end(),
                   [](const Late& a, const Late& b) { return a.first < b.first; });
  std::vector<Share> shares(1);
  int64_t gathered = 0;
  for (const Late& each : late) {
    if (each.first > shares.back().first && (shares.back().reads.empty() ||
                                             gathered * kShares >= bytes)) {
      shares.push_back({each.first, {}});
      gathered = 0;
    }
    shares.back().reads.push_back(each.var);
    gathered += each.bytes;
  }
  return shares;
}

}  // namespace mg
