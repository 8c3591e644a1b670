// The random stream of one device: it hands out a Seed for each run of a Step that draws.
#pragma once

#include <atomic>

#include "kernel.h"

namespace mg {

class Source {
 public:
  explicit Source(uint64_t key) : key_(key) {}
  Seed next() { return {key_, runs_.fetch_add(1, std::memory_order_relaxed)}; }

 private:
  uint64_t key_;
  std::atomic<uint64_t> runs_{0};
};

}  // namespace mg
