// Host memory that is kept and used again.
//
// Touching fresh 4 KB pages costs more than most kernels. Big blocks lie on huge pages where the
// system has them, and come back at the next request of about their size. What lies idle is
// bounded; beyond that the blocks that were idle longest go back to the system.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mg {

// Blocks from this size on are pooled; smaller ones come from malloc.
constexpr std::size_t kPooledFrom = std::size_t{256} << 10;

// Memory for `bytes`, 64-byte aligned; throws std::bad_alloc. `zeroed`: filled with zeros.
void* pool_take(std::size_t bytes, bool zeroed = false);
// Give back what pool_take returned.
void pool_give(void* pointer) noexcept;
// The block again, or another with its contents, for so many bytes; nullptr where the C library
// has none left.
void* pool_resize(void* pointer, std::size_t bytes);

struct PoolStats {
  std::size_t used, idle, limit;
  uint64_t fresh, reused;
};
PoolStats pool_stats();
// How many bytes may lie idle; what is too much goes at once.
void pool_limit(std::size_t bytes);

// One block for the temporaries of a program. The next program of the thread uses the same one.
class Arena {
 public:
  explicit Arena(std::size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  char* data() const { return static_cast<char*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mg
