// The engine as the files that know Python use it.
#pragma once

#include <Python.h>

#include <functional>
#include <memory>

#include "engine.h"

namespace mg {

// The one engine of the process.
Engine& engine();

// Whether reading (writing) what a Python object `Var` stands for must first wait, or has an error
// to tell. Cheap; true in doubt.
bool is_busy(PyObject* var);
bool is_used(PyObject* var);

// A new Python object `Var`, and the variable that one stands for.
PyObject* new_var();
VarPtr var_of(PyObject* var);

// Wait until something more may be queued, which will make so many bytes for a later item.
void wait_for_room(std::size_t wanted = 0);

// Somebody who brings what a thread waits for when that thread lends itself to it.
class Bringer {
 public:
  virtual ~Bringer() = default;
  // Called without the GIL by a thread that would sleep; returns when `done` says so, after a
  // while, or at once where there is nothing to do.
  virtual void bring(const std::function<bool()>& done) = 0;
};

// From now on this one is asked (null: nobody).
void set_bringer(std::shared_ptr<Bringer> bringer);

// The item that a Python object `Ticket` ends.
ItemPtr item_of(PyObject* ticket);

// Give up a reference from any thread, with or without the GIL: it is dropped soon.
void bury(PyObject* object);

// Enter the classes and functions.
void enter_engine(PyObject* module);

}  // namespace mg
