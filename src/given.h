// What Python gives, as kernels are told it: types, descriptions of arrays, attributes.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "kernel.h"

namespace mg {

namespace nb = nanobind;

// Whether kernels know a NumPy type of this name.
bool is_native(const std::string& dtype);
// ValueError where they do not.
DType dtype_named(const std::string& name);
// From a list of (dtype name, shape).
std::vector<Desc> descs_of(nb::handle list);
// A dict as attributes; false: it holds a value that kernels cannot be told.
bool attrs_of(PyObject* dict, Attrs& attrs);

}  // namespace mg
