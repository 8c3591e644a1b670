// The engine as the files that know Python use it.
#pragma once

#include <Python.h>

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

// Give up a reference from any thread, with or without the GIL: it is dropped soon.
void bury(PyObject* object);

// Enter the classes and functions.
void enter_engine(PyObject* module);

}  // namespace mg
