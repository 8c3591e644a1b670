// What Python sees of the engine: Var, Failure, Ticket, push, begin, wait_all.
#include "ahead.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <pthread.h>

#include <algorithm>
#include <limits>

#include "away.h"

namespace nb = nanobind;

namespace mg {
namespace {

using Clock = Engine::Clock;

PyObject* var_type = nullptr;
// Python functions that setup() was given: two that raise, one that tells how many seconds a
// wait may take.
nb::object *raise_forked = nullptr, *raise_timeout = nullptr, *patience = nullptr;

void put(nb::object*& place, nb::object given) {
  if (place == nullptr) place = new nb::object;  // never deleted: Python may have ended before
  *place = std::move(given);
}

// Seconds from which on a program is queued.
double queue_from = std::numeric_limits<double>::infinity();

// -- references given up without the GIL ----------------------------------------------------------

struct Buried {
  std::mutex mutex;
  std::vector<PyObject*> objects;
};

Buried& buried() {
  static auto* the = new Buried;
  return *the;
}

int drop_buried(void*) {
  std::vector<PyObject*> objects;
  {
    std::lock_guard<std::mutex> hold(buried().mutex);
    objects.swap(buried().objects);
  }
  for (PyObject* each : objects) Py_DECREF(each);
  return 0;
}

// -- faults ---------------------------------------------------------------------------------------

// An exception of Python's.
struct PythonFault : Fault {
  PythonFault(PyObject* given, bool is_late) : error(given), late(is_late) {}
  ~PythonFault() override { bury(error); }
  PyObject* error;  // null once it was raised
  const bool late;
};

FaultPtr caught() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return std::make_shared<PythonFault>(value, false);
}

// Raise what went wrong, unless somebody has seen it.
void see(const FaultPtr& fault) {
  if (!fault || !fault->see()) return;
  if (auto* python = dynamic_cast<PythonFault*>(fault.get())) {
    nb::object error = nb::steal(std::exchange(python->error, nullptr));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  } else {
    const auto* native = dynamic_cast<NativeFault*>(fault.get());
    PyErr_SetString(PyExc_RuntimeError, native != nullptr ? native->text.c_str() : "queued work");
  }
  throw nb::python_error();
}

// Failure(error, late=False)
struct PyFailure {
  explicit PyFailure(FaultPtr given) : fault(std::move(given)) {}
  PyFailure(nb::object error, bool late)
      : fault(std::make_shared<PythonFault>(error.release().ptr(), late)) {}

  nb::object error() const {
    if (fault->seen()) return nb::none();
    if (auto* python = dynamic_cast<PythonFault*>(fault.get())) return nb::borrow(python->error);
    const auto* native = dynamic_cast<NativeFault*>(fault.get());
    return nb::borrow(PyExc_RuntimeError)(native != nullptr ? native->text : "queued work");
  }
  bool late() const {
    auto* python = dynamic_cast<PythonFault*>(fault.get());
    return python != nullptr && python->late;
  }
  FaultPtr fault;
};

// -- waiting --------------------------------------------------------------------------------------

std::mutex bringer_mutex;

std::shared_ptr<Bringer>& the_bringer() {
  static auto* the = new std::shared_ptr<Bringer>;  // never deleted: it may hold Python's objects
  return *the;
}

std::shared_ptr<Bringer> bringer() {
  std::lock_guard<std::mutex> hold(bringer_mutex);
  return the_bringer();
}

// Wait without the GIL, in pieces between which signals get through; false: too long.
template <class Wait>
bool wait_for(Wait wait) {
  double limit = -1;
  for (const auto begin = Clock::now();;) {
    bool done;
    {
      Away away;
      if (const auto brings = bringer()) {
        brings->bring([&] { return wait(Clock::time_point()); });
      }
      done = wait(Clock::now() + std::chrono::milliseconds(100));
    }
    drop_buried(nullptr);
    if (done) return true;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (limit < 0) limit = nb::cast<double>((*patience)());
    if (Clock::now() - begin > std::chrono::duration<double>(limit)) {
      return false;
    }
  }
}

[[noreturn]] void say(nb::object* raises, const std::string& what) {
  (*raises)(what);
  throw std::logic_error(what);  // it has raised
}

struct PyVar {
  VarPtr var = std::make_shared<Var>();

  bool busy() const { return var->writing() || var->marked(); }

  bool used() const { return var->used() || var->marked(); }

  void settle(bool to_write) const {
    if (to_write ? var->used() : var->writing()) {
      const uint64_t before = engine().ticket();
      if (!wait_for([&](Clock::time_point until) {
            return engine().wait_var(*var, to_write, before, until);
          })) {
        say(raise_timeout, engine().pending(var.get()));
      }
    }
    if (!var->marked()) return;
    const std::string orphan = engine().orphan(*var);
    if (!orphan.empty()) say(raise_forked, orphan);
  }

  void wait(bool to_write) const {
    settle(to_write);
    if (var->marked()) see(engine().fault_of(*var, true));
  }

  // The late failure that an operator reading this hands on.
  nb::object lost() const {
    settle(false);
    FaultPtr fault = var->marked() ? engine().fault_of(*var, false) : nullptr;
    if (fault && PyFailure(fault).late()) return nb::cast(PyFailure(fault));
    wait(false);
    return nb::none();
  }
};

// -- work -----------------------------------------------------------------------------------------

struct PythonWork : Work {
  explicit PythonWork(PyObject* given) : fn(given) {}
  ~PythonWork() override { bury(fn); }
  FaultPtr run() override {
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject* made = PyObject_CallNoArgs(fn);
    FaultPtr fault = made == nullptr ? caught() : nullptr;
    Py_XDECREF(made);
    Py_CLEAR(fn);
    PyGILState_Release(state);
    return fault;
  }
  bool brief() const override { return false; }
  PyObject* fn;
};

std::vector<VarPtr> vars_of(nb::handle list) {
  std::vector<VarPtr> found;
  for (nb::handle each : list) found.push_back(nb::cast<PyVar&>(each).var);
  return found;
}

void push(nb::object fn, nb::handle reads, nb::handle writes, int priority,
          const std::string& what) {
  std::vector<VarPtr> read = vars_of(reads), written = vars_of(writes);
  const bool alone = written.empty();
  PushOptions options;
  options.priority = priority;
  options.what = what;
  wait_for_room();
  auto work = std::make_unique<PythonWork>(fn.release().ptr());
  ItemPtr item;
  const bool inline_ = engine().threads() == 0;
  {
    Away away;
    item = engine().push(std::move(work), std::move(read), std::move(written), options);
  }
  if (inline_ && alone) see(item->fault());
}

// Work that ends elsewhere.
struct PyTicket {
  ItemPtr item;
  void done() const { engine().end(item, nullptr); }
  void fail(nb::object error) const {
    engine().end(item, std::make_shared<PythonFault>(error.release().ptr(), false));
  }
  const std::string& what() const { return item->what(); }
};

PyTicket begin(nb::handle writes, const std::string& what, nb::handle reads) {
  std::vector<VarPtr> written = vars_of(writes), read = vars_of(reads);
  for (const std::vector<VarPtr>* vars : {&written, &read}) {
    for (const VarPtr& var : *vars) {
      const std::string orphan = engine().orphan(*var);
      if (!orphan.empty()) say(raise_forked, orphan);
      if (engine().held(var)) {
        throw nb::value_error((what + ": announced inside queued work that holds the array itself; "
                                      "leave the array out of that work's reads and writes").c_str());
      }
    }
  }
  PyTicket ticket{engine().begin(std::move(written), what, std::move(read))};
  bool started = false;
  try {
    started = wait_for([&](Clock::time_point until) {
      return engine().wait_started(ticket.item, until);
    });
  } catch (...) {
    ticket.done();
    throw;
  }
  if (!started) {
    ticket.done();
    say(raise_timeout, what);
  }
  return ticket;
}

void wait_all() {
  if (!wait_for([](Clock::time_point until) { return engine().wait_all(until); })) {
    say(raise_timeout, engine().pending(nullptr));
  }
  FaultPtr first;
  for (const FaultPtr& fault : engine().unseen()) {
    if (!first) {
      first = fault;
    } else if (fault->see()) {
      auto* python = dynamic_cast<PythonFault*>(fault.get());
      if (python != nullptr) bury(std::exchange(python->error, nullptr));
    }
  }
  see(first);
}

void set_threads(int threads) {
  Away away;
  engine().stop();
  engine().restart(threads);
}

}  // namespace

thread_local Ahead* ahead = nullptr;
thread_local Spending* spending = nullptr;

double worth_queueing() {
  return engine().threads() > 0 ? queue_from : std::numeric_limits<double>::infinity();
}

PyObject* new_var() { return nb::cast(PyVar()).release().ptr(); }

VarPtr var_of(PyObject* var) { return nb::inst_ptr<PyVar>(var)->var; }

void wait_for_room(std::size_t wanted) {
  if (!wait_for([&](Clock::time_point until) { return engine().wait_room(until, wanted); })) {
    say(raise_timeout, engine().pending(nullptr));
  }
}

void set_bringer(std::shared_ptr<Bringer> bringer) {
  std::lock_guard<std::mutex> hold(bringer_mutex);
  the_bringer().swap(bringer);
}

ItemPtr item_of(PyObject* ticket) { return nb::cast<PyTicket&>(nb::handle(ticket)).item; }

Engine& engine() {
  static auto* the = new Engine(0);  // never destroyed: threads and arrays may outlive the rest
  return *the;
}

bool is_busy(PyObject* var) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(var)) != var_type) return true;
  return nb::inst_ptr<PyVar>(var)->busy();
}

bool is_used(PyObject* var) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(var)) != var_type) return true;
  return nb::inst_ptr<PyVar>(var)->used();
}

void bury(PyObject* object) {
  if (object == nullptr) return;
  bool first;
  {
    std::lock_guard<std::mutex> hold(buried().mutex);
    first = buried().objects.empty();
    buried().objects.push_back(object);
  }
  if (first) Py_AddPendingCall(drop_buried, nullptr);
}

void enter_engine(PyObject* raw_module) {
  nb::module_ core = nb::borrow<nb::module_>(raw_module);
  nb::module_ m = core.def_submodule("engine", "The order of reads and writes; worker threads.");
  nb::class_<PyFailure>(m, "Failure")
      .def(nb::init<nb::object, bool>(), nb::arg("error"), nb::arg("late") = false)
      .def_prop_ro("error", &PyFailure::error)
      .def_prop_ro("late", &PyFailure::late)
      .def("see", [](const PyFailure& self) { see(self.fault); });
  nb::class_<PyVar>(m, "Var")
      .def(nb::init<>())
      .def_prop_ro("busy", &PyVar::busy)
      .def_prop_ro("used", &PyVar::used)
      .def("wait", [](const PyVar& self) { self.wait(false); })
      .def("wait_to_write", [](const PyVar& self) { self.wait(true); })
      .def("lost", &PyVar::lost)
      .def("fail", [](const PyVar& self, const PyFailure& failure) {
        engine().fail(*self.var, failure.fault);
      });
  var_type = nb::object(m.attr("Var")).release().ptr();
  nb::class_<PyTicket>(m, "Ticket")
      .def_prop_ro("what", &PyTicket::what)
      .def("done", &PyTicket::done)
      .def("fail", &PyTicket::fail, nb::arg("error"));
  m.def("push", &push, nb::arg("fn"), nb::arg("reads"), nb::arg("writes"), nb::arg("priority"),
        nb::arg("what"));
  m.def("begin", &begin, nb::arg("writes"), nb::arg("what"), nb::arg("reads") = nb::make_tuple());
  m.def("wait_all", &wait_all);
  m.def("threads", [] { return engine().threads(); });
  m.def("set_threads", &set_threads, nb::arg("threads"));
  m.def("limit", [](std::size_t items, std::size_t bytes) { engine().limit(items, bytes); },
        nb::arg("items"), nb::arg("bytes"));
  m.def("queue_from", [](double seconds) { return std::exchange(queue_from, seconds); },
        nb::arg("seconds"));
  m.def("open", [] { return engine().open(); });
  m.def("trace", [](bool on) { engine().trace(on); }, nb::arg("on"));
  m.def("spans", [] {
    auto nanoseconds = [](Clock::time_point at) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
    };
    nb::list made;
    for (const Engine::Span& each : engine().spans()) {
      made.append(nb::make_tuple(each.what, nanoseconds(each.began), nanoseconds(each.ended),
                                 each.work));
    }
    return made;
  }, "(what, begin, end, whether a thread of the engine did it) of items while traced; in ns.");
  m.def("pause", [] {
    Away away;
    engine().pause();
  });
  m.def("resume", [] { engine().resume(); });
  m.def("stop", [] {
    Away away;
    engine().stop();
  });
  m.def("setup", [](nb::object forked, nb::object timeout, nb::object seconds) {
    put(raise_forked, std::move(forked));
    put(raise_timeout, std::move(timeout));
    put(patience, std::move(seconds));
  });
  engine();
  pthread_atfork([] { bringer_mutex.lock(), engine().lock(), buried().mutex.lock(); },
                 [] { buried().mutex.unlock(), engine().unlock(), bringer_mutex.unlock(); },
                 [] {
                   bringer_mutex.unlock();
                   buried().mutex.unlock();
                   engine().after_fork_in_child();
                 });
}

}  // namespace mg
