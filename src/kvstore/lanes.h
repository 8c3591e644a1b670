// Messages that repeat, sent, read and answered without Python; see lanes.cpp and rounds.cpp.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace mg {

// Sums arrays of one type (kernel.h's number) from left to right; false where Python has to.
bool sum_raw(int type, const std::vector<const char*>& pieces, void* out, int64_t size);

// The bytes of a message before its numbers. In each the request's number stands in the same place,
// and is all that changes.
struct Form {
  std::string head;
  std::size_t room = 0;  // bytes of numbers behind it

  std::size_t size() const { return head.size() + room; }

  // Whether a message of that many bytes begins like this one, up to its number.
  bool fits(const char* message, std::size_t bytes, std::size_t seq_at) const {
    const std::size_t rest = seq_at + sizeof(uint64_t);
    return bytes >= size() && head.size() >= rest &&
           std::memcmp(message, head.data(), seq_at) == 0 &&
           std::memcmp(message + rest, head.data() + rest, head.size() - rest) == 0;
  }
};

inline uint64_t number_in(const char* message, std::size_t seq_at) {
  uint64_t seq;
  std::memcpy(&seq, message + seq_at, sizeof seq);
  return seq;
}

inline void put_number(char* message, std::size_t seq_at, uint64_t seq) {
  std::memcpy(message + seq_at, &seq, sizeof seq);
}

constexpr std::size_t kMostBytes = 32 << 10;  // of a message that repeats

// Enter the classes of both ends.
void enter_lanes(PyObject* module);
void enter_rounds(PyObject* module);

}  // namespace mg
