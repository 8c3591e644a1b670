// What Python gives, as kernels are told it.
#include "given.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>

namespace mg {

static const std::map<std::string, DType>& dtype_names() {
  static const std::map<std::string, DType> names = {
      {"float32", DType::f32}, {"float64", DType::f64}, {"float16", DType::f16},
      {"int32", DType::i32},   {"int64", DType::i64},   {"uint8", DType::u8},
      {"int8", DType::i8},     {"bool", DType::b8}};
  return names;
}

bool is_native(const std::string& dtype) { return dtype_names().count(dtype) != 0; }

DType dtype_named(const std::string& name) {
  auto found = dtype_names().find(name);
  if (found == dtype_names().end()) throw nb::value_error(("no native dtype " + name).c_str());
  return found->second;
}

static Desc desc_of(nb::handle given) {
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
static bool set_attr(Attrs& attrs, const std::string& name, nb::handle value) {
  PyObject* raw = value.ptr();
  if (raw == Py_None) return true;
  if (PyBool_Check(raw)) {
    attrs.set(name, raw == Py_True);
  } else if (PyLong_Check(raw)) {
    int64_t number;
    if (!nb::try_cast(value, number)) return false;
    attrs.set(name, number);
  } else if (PyFloat_Check(raw)) {
    attrs.set(name, PyFloat_AsDouble(raw));
  } else if (PyUnicode_Check(raw)) {
    attrs.set(name, nb::cast<std::string>(value));
  } else if (PyTuple_Check(raw) || PyList_Check(raw)) {
    std::vector<int64_t> whole;
    std::vector<double> numbers;
    for (nb::handle item : value) {
      if (PyLong_Check(item.ptr())) {
        int64_t number;
        if (!nb::try_cast(item, number)) return false;
        whole.push_back(number);
        numbers.push_back(static_cast<double>(number));
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

bool attrs_of(PyObject* dict, Attrs& attrs) {
  for (auto [key, value] : nb::borrow<nb::dict>(dict)) {
    if (!set_attr(attrs, nb::cast<std::string>(key), value)) return false;
  }
  return true;
}

}  // namespace mg
