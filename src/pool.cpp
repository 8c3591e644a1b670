// Host memory that is kept and used again.
#include "pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes) (void)(begin)
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) (void)(begin)
#endif

namespace mg {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr std::size_t kUnit = std::size_t{64} << 10;

struct Idle {
  void* data;
  std::size_t size;
};

struct Pool {
  std::mutex mutex;
  std::list<Idle> idle;  // longest idle first
  std::multimap<std::size_t, std::list<Idle>::iterator> by_size;
  std::unordered_map<void*, std::size_t> live;
  std::vector<std::pair<void*, std::size_t>> arenas;
  PoolStats stats{0, 0, std::size_t{512} << 20, 0, 0};
};

Pool& pool() {
  static Pool* the = [] {
    auto* made = new Pool;  // never destroyed: arrays may outlive everything else
    const auto pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    if (pages > 0 && page > 0) {
      const auto memory = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
      made->stats.limit = std::max(made->stats.limit, memory / 4);
    }
    if (const char* text = std::getenv("MINIGLUON_CPU_MEM_POOL_MB")) {
      made->stats.limit = std::strtoull(text, nullptr, 10) << 20;
    }
    // A fork in the middle of a call must not leave the child with a locked pool.
    pthread_atfork([] { pool().mutex.lock(); }, [] { pool().mutex.unlock(); },
                   [] { pool().mutex.unlock(); });
    return made;
  }();
  return *the;
}

std::size_t rounded(std::size_t bytes) {
  const std::size_t unit = bytes >= 16 * kHuge ? kHuge : kUnit;
  return (bytes + unit - 1) / unit * unit;
}

// Fresh pages (zeros), aligned to huge pages where they are large enough for some.
void* map_pages(std::size_t size) {
  const bool huge = size >= kHuge;
  const std::size_t extra = huge ? kHuge : 0;
  void* found = mmap(nullptr, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
  if (found == MAP_FAILED) throw std::bad_alloc();
  if (!huge) return found;
  char* begin = static_cast<char*>(found);
  char* aligned = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(begin) + kHuge - 1) &
                                          ~(uintptr_t{kHuge} - 1));
  if (aligned != begin) munmap(begin, aligned - begin);
  char* end = begin + size + extra;
  if (aligned + size != end) munmap(aligned + size, end - (aligned + size));
#ifdef MADV_HUGEPAGE
  madvise(aligned, size, MADV_HUGEPAGE);
#endif
  return aligned;
}

// To AddressSanitizer a block is as long as what was asked for, and gone while it is idle.
void show(void* data, std::size_t bytes, std::size_t size) {
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(data) + bytes, size - bytes);
}

// Let go of what has been idle longest until no more than `bytes` are. Under the mutex.
void shrink(Pool& p, std::size_t bytes) {
  while (p.stats.idle > bytes && !p.idle.empty()) {
    auto oldest = p.idle.begin();
    auto [from, to] = p.by_size.equal_range(oldest->size);
    for (auto it = from; it != to; ++it) {
      if (it->second == oldest) {
        p.by_size.erase(it);
        break;
      }
    }
    show(oldest->data, oldest->size, oldest->size);  // the pages may become somebody else's
    munmap(oldest->data, oldest->size);
    p.stats.idle -= oldest->size;
    p.idle.erase(oldest);
  }
}

}  // namespace

void* pool_take(std::size_t bytes, bool zeroed) {
  if (bytes < kPooledFrom) {
    void* small = nullptr;
    if (posix_memalign(&small, 64, bytes ? bytes : 1) != 0) throw std::bad_alloc();
    if (zeroed) std::memset(small, 0, bytes);
    return small;
  }
  const std::size_t size = rounded(bytes);
  Pool& p = pool();
  void* data = nullptr;
  {
    std::lock_guard<std::mutex> hold(p.mutex);
    auto found = p.by_size.lower_bound(size);
    if (found != p.by_size.end() && found->first <= size + size / 8) {
      data = found->second->data;
      const std::size_t had = found->first;
      p.idle.erase(found->second);
      p.by_size.erase(found);
      p.live.emplace(data, had);
      show(data, bytes, had);
      p.stats.idle -= had;
      p.stats.used += had;
      ++p.stats.reused;
    }
  }
  if (data != nullptr) {
    if (zeroed) std::memset(data, 0, bytes);
    return data;
  }
  data = map_pages(size);
  show(data, bytes, size);
  std::lock_guard<std::mutex> hold(p.mutex);
  p.live.emplace(data, size);
  p.stats.used += size;
  ++p.stats.fresh;
  return data;
}

void pool_give(void* pointer) noexcept {
  if (pointer == nullptr) return;
  // Pooled blocks begin at a page; hardly anything else does, so the table is rarely asked.
  if ((reinterpret_cast<uintptr_t>(pointer) & 4095) == 0) {
    Pool& p = pool();
    std::lock_guard<std::mutex> hold(p.mutex);
    auto found = p.live.find(pointer);
    if (found != p.live.end()) {
      const std::size_t size = found->second;
      p.live.erase(found);
      p.stats.used -= size;
      p.stats.idle += size;
      show(pointer, 0, size);
      p.idle.push_back(Idle{pointer, size});
      p.by_size.emplace(size, std::prev(p.idle.end()));
      shrink(p, p.stats.limit);
      return;
    }
  }
  std::free(pointer);
}

void* pool_resize(void* old, std::size_t bytes) {
  std::size_t had = 0;
  if (old != nullptr && (reinterpret_cast<uintptr_t>(old) & 4095) == 0) {
    Pool& p = pool();
    std::lock_guard<std::mutex> hold(p.mutex);
    auto found = p.live.find(old);
    if (found != p.live.end()) had = found->second;
  }
  if (old != nullptr && had == 0) return std::realloc(old, bytes);
  void* made = pool_take(bytes);
  if (had != 0) {
    show(old, had, had);
    std::memcpy(made, old, std::min(had, bytes));
    pool_give(old);
  }
  return made;
}

PoolStats pool_stats() {
  Pool& p = pool();
  std::lock_guard<std::mutex> hold(p.mutex);
  return p.stats;
}

void pool_limit(std::size_t bytes) {
  Pool& p = pool();
  std::vector<std::pair<void*, std::size_t>> arenas;
  {
    std::lock_guard<std::mutex> hold(p.mutex);
    p.stats.limit = bytes;
    arenas.swap(p.arenas);
  }
  for (auto& arena : arenas) pool_give(arena.first);
  std::lock_guard<std::mutex> hold(p.mutex);
  shrink(p, bytes);
}

Arena::Arena(std::size_t bytes) {
  if (bytes == 0) return;
  Pool& p = pool();
  void* small = nullptr;
  {
    std::lock_guard<std::mutex> hold(p.mutex);
    if (!p.arenas.empty()) {  // the last used one: it is warm
      std::tie(data_, bytes_) = p.arenas.back();
      p.arenas.pop_back();
      if (bytes_ < bytes) std::swap(small, data_);
    }
  }
  if (small != nullptr) pool_give(small);
  if (data_ == nullptr) {
    data_ = pool_take(bytes);
    bytes_ = bytes;
  }
  show(data_, bytes, bytes_);
}

Arena::~Arena() {
  if (data_ == nullptr) return;
  show(data_, 0, bytes_);
  Pool& p = pool();
  std::lock_guard<std::mutex> hold(p.mutex);
  p.arenas.emplace_back(data_, bytes_);
}

}  // namespace mg
