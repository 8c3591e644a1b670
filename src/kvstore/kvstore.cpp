// What the parameter server does to numbers: quantising gradients, and summing what came in, in the
// order given, without the GIL. The plain bodies are in kvstore/compression.py.
#include "../numpy.h"
#include "lanes.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "../away.h"
#include "../kernels/sets.h"

namespace nb = nanobind;

namespace mg {
namespace {

#define MG_ISA_FILE "kvstore/codec.inl"
#include "kernels/each_set.h"

enum Kind { kRaw = 0, kOneBit = 1, kTwoBit = 2 };

constexpr int64_t kTile = 4096;  // elements summed at a time: all pieces of it stay in the cache

PyArrayObject* dense(nb::handle object, const char* what) {
  if (!PyArray_Check(object.ptr()) || !is_dense(as_array(object.ptr()))) {
    throw nb::type_error(what);
  }
  return as_array(object.ptr());
}

int64_t packed_bytes(int kind, int64_t size) {
  return kind == kOneBit ? (size + 31) / 32 * 4 : (size + 15) / 16 * 4;
}

void quantize(int kind, nb::handle grad, nb::handle residual, nb::handle packed, float threshold) {
  PyArrayObject* g = dense(grad, "quantize: grad");
  PyArrayObject* r = dense(residual, "quantize: residual");
  PyArrayObject* p = dense(packed, "quantize: packed");
  const int64_t size = PyArray_SIZE(g);
  if (PyArray_TYPE(g) != NPY_FLOAT || PyArray_TYPE(r) != NPY_FLOAT || PyArray_SIZE(r) != size ||
      PyArray_NBYTES(p) != packed_bytes(kind, size) || !PyArray_ISWRITEABLE(r) ||
      !PyArray_ISWRITEABLE(p)) {
    throw nb::value_error("quantize: float32 arrays of one size and room for the codes");
  }
  const float* from = static_cast<const float*>(PyArray_DATA(g));
  float* rest = static_cast<float*>(PyArray_DATA(r));
  void* to = PyArray_DATA(p);
  Away away;
  if (kind == kTwoBit) {
    MG_PICK(quantize_two)(from, rest, static_cast<uint32_t*>(to), threshold, size);
  } else {
    if (size > 0) std::memset(static_cast<char*>(to) + packed_bytes(kind, size) - 4, 0, 4);
    MG_PICK(quantize_one)(from, rest, static_cast<uint8_t*>(to), threshold, size);
  }
}

struct Piece {
  const char* data;
  int kind;
  float threshold;
};

template <class T>
struct Sums {
  decltype(&base::sum_two<T>) two = MG_PICK(sum_two<T>);
  decltype(&base::sum_four<T>) four = MG_PICK(sum_four<T>);
  decltype(&base::add_to<T>) add = MG_PICK(add_to<T>);
};

template <class T>
void merge_raw(const std::vector<Piece>& pieces, T* out, int64_t size) {
  const Sums<T> sums;
  const size_t count = pieces.size();
  for (int64_t at = 0; at < size; at += kTile) {
    const int64_t n = std::min(kTile, size - at);
    auto part = [&](size_t i) { return reinterpret_cast<const T*>(pieces[i].data) + at; };
    size_t next = 1;
    if (count >= 4) {
      sums.four(part(0), part(1), part(2), part(3), out + at, n);
      next = 4;
    } else if (count >= 2) {
      sums.two(part(0), part(1), out + at, n);
      next = 2;
    } else {
      std::memcpy(out + at, part(0), static_cast<size_t>(n) * sizeof(T));
    }
    for (; next < count; ++next) sums.add(part(next), out + at, n);
  }
}

bool merge_raw(int type, const std::vector<Piece>& pieces, void* out, int64_t size) {
  switch (type) {
    case static_cast<int>(DType::f32): merge_raw(pieces, static_cast<float*>(out), size); break;
    case static_cast<int>(DType::f64): merge_raw(pieces, static_cast<double*>(out), size); break;
    case static_cast<int>(DType::i32): merge_raw(pieces, static_cast<int32_t*>(out), size); break;
    case static_cast<int>(DType::i64): merge_raw(pieces, static_cast<int64_t*>(out), size); break;
    case static_cast<int>(DType::i8): merge_raw(pieces, static_cast<int8_t*>(out), size); break;
    case static_cast<int>(DType::u8): merge_raw(pieces, static_cast<uint8_t*>(out), size); break;
    default: return false;
  }
  return true;
}

void merge_packed(const std::vector<Piece>& pieces, float* out, int64_t size) {
  const auto two = MG_PICK(expand_two<false>), add_two = MG_PICK(expand_two<true>);
  const auto one = MG_PICK(expand_one<false>), add_one = MG_PICK(expand_one<true>);
  const auto add = MG_PICK(add_to<float>);
  for (int64_t at = 0; at < size; at += kTile) {
    const int64_t n = std::min(kTile, size - at);
    bool first = true;
    for (const Piece& piece : pieces) {
      if (piece.kind == kTwoBit) {
        (first ? two : add_two)(piece.data + at / 4, out + at, piece.threshold, n);
      } else if (piece.kind == kOneBit) {
        (first ? one : add_one)(reinterpret_cast<const uint8_t*>(piece.data + at / 8), out + at, n);
      } else if (first) {
        std::memcpy(out + at, piece.data + at * 4, static_cast<size_t>(n) * 4);
      } else {
        add(reinterpret_cast<const float*>(piece.data) + at, out + at, n);
      }
      first = false;
    }
  }
}

// out = the pieces added from left to right. Packed pieces need a float32 `out`.
bool merge(nb::handle out, nb::list pieces, const std::vector<int>& kinds,
           const std::vector<float>& thresholds) {
  PyArrayObject* to = dense(out, "merge: out");
  const int64_t size = PyArray_SIZE(to);
  const int type = PyArray_TYPE(to);
  std::vector<Piece> found;
  bool packed = false;
  for (size_t i = 0; i < nb::len(pieces); ++i) {
    if (!PyArray_Check(nb::handle(pieces[i]).ptr())) return false;
    PyArrayObject* piece = as_array(nb::handle(pieces[i]).ptr());
    const int kind = kinds.at(i);
    packed = packed || kind != kRaw;
    const bool fits = kind == kRaw ? PyArray_TYPE(piece) == type && PyArray_SIZE(piece) == size
                                   : PyArray_NBYTES(piece) == packed_bytes(kind, size);
    if (!fits || !is_dense(piece)) return false;
    found.push_back({static_cast<const char*>(PyArray_DATA(piece)), kind, thresholds.at(i)});
  }
  if (found.empty() || !PyArray_ISWRITEABLE(to) || (packed && type != NPY_FLOAT)) return false;
  void* data = PyArray_DATA(to);
  const int known = dtype_of(type);
  Away away;
  if (packed) {
    merge_packed(found, static_cast<float*>(data), size);
    return true;
  }
  return merge_raw(known, found, data, size);
}

// Whether `arrays` are dense arrays with the types and shapes of `like`.
bool fits(nb::list arrays, nb::list like) {
  const size_t count = nb::len(arrays);
  if (count != nb::len(like)) return false;
  for (size_t i = 0; i < count; ++i) {
    PyObject* one = PyList_GET_ITEM(arrays.ptr(), static_cast<Py_ssize_t>(i));
    PyObject* other = PyList_GET_ITEM(like.ptr(), static_cast<Py_ssize_t>(i));
    if (!PyArray_CheckExact(one) || !PyArray_Check(other)) return false;
    PyArrayObject *a = as_array(one), *b = as_array(other);
    if (!is_dense(a) || PyArray_TYPE(a) != PyArray_TYPE(b) || !PyArray_SAMESHAPE(a, b)) return false;
  }
  return true;
}

// Copies between one array and several that are as long together; false, and nothing done, where
// they are not, or not dense arrays of one type.
bool copy_pieces(nb::handle whole, nb::list pieces, bool out) {
  if (!PyArray_Check(whole.ptr()) || !is_dense(as_array(whole.ptr()))) return false;
  PyArrayObject* flat = as_array(whole.ptr());
  std::vector<std::pair<char*, size_t>> places;
  int64_t sum = 0;
  if (!out && !PyArray_ISWRITEABLE(flat)) return false;
  for (size_t i = 0; i < nb::len(pieces); ++i) {
    PyObject* one = PyList_GET_ITEM(pieces.ptr(), static_cast<Py_ssize_t>(i));
    if (!PyArray_Check(one)) return false;
    PyArrayObject* piece = as_array(one);
    if (!is_dense(piece) || PyArray_TYPE(piece) != PyArray_TYPE(flat)) return false;
    if (out && !PyArray_ISWRITEABLE(piece)) return false;
    places.emplace_back(static_cast<char*>(PyArray_DATA(piece)), PyArray_NBYTES(piece));
    sum += PyArray_NBYTES(piece);
  }
  if (sum != PyArray_NBYTES(flat)) return false;
  char* at = static_cast<char*>(PyArray_DATA(flat));
  Away away;
  for (auto [data, size] : places) {
    if (out) {
      std::memcpy(data, at, size);
    } else {
      std::memcpy(at, data, size);
    }
    at += size;
  }
  return true;
}

bool gather(nb::handle flat, nb::list pieces) { return copy_pieces(flat, pieces, false); }
bool scatter(nb::handle flat, nb::list pieces) { return copy_pieces(flat, pieces, true); }

}  // namespace

bool sum_raw(int type, const std::vector<const char*>& pieces, void* out, int64_t size) {
  std::vector<Piece> found;
  for (const char* each : pieces) found.push_back({each, kRaw, 0});
  return merge_raw(type, found, out, size);
}

void enter_kvstore(PyObject* module) {
  enter_lanes(module);
  nb::module_ m = nb::borrow<nb::module_>(module);
  m.def("kv_quantize", &quantize, nb::arg("kind"), nb::arg("grad"), nb::arg("residual"),
        nb::arg("packed"), nb::arg("threshold"), "Codes of grad + residual; the rest stays.");
  m.def("kv_fits", &fits, nb::arg("arrays"), nb::arg("like"),
        "Whether arrays are dense, with the types and shapes of others.");
  m.def("kv_gather", &gather, nb::arg("flat"), nb::arg("pieces"),
        "Copy pieces into one array; False where NumPy has to.");
  m.def("kv_scatter", &scatter, nb::arg("flat"), nb::arg("pieces"),
        "Copy one array into pieces; False where NumPy has to.");
  m.def("kv_merge", &merge, nb::arg("out"), nb::arg("pieces"), nb::arg("kinds"),
        nb::arg("thresholds"), "Sum pieces in order; False where NumPy has to.");
}

}  // namespace mg
