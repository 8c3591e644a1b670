// The team behind parallel_for.
//
// A job is a number of parts. One word says which job it is and how many of its parts nobody has
// begun; whoever takes one from it (the caller or a helper) runs that part. So nobody waits for a
// helper that has not come: the caller waits only for parts that somebody is working on.
#include "parallel.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace mg {
namespace {

using Clock = std::chrono::steady_clock;

// How long a helper looks for work before it sleeps. Waking it takes tens of microseconds on a
// virtual machine, and Python's part between two programs of a training step about as long.
constexpr auto kLook = std::chrono::microseconds(60);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

thread_local bool working = false;  // this thread runs a part: what it calls does not share out

class Team {
 public:
  int size() const { return size_.load(std::memory_order_relaxed); }
  void resize(int threads) { size_.store(std::max(1, threads), std::memory_order_relaxed); }
  bool awake() const { return looking_.load(std::memory_order_relaxed) > 0; }

  void wake() {
    rest_.store(false, std::memory_order_relaxed);
    if (asleep_.load(std::memory_order_seq_cst) == 0) return;
    std::lock_guard<std::mutex> hold(mutex_);
    ++calls_;
    bell_.notify_all();
  }

  void rest() { rest_.store(true, std::memory_order_relaxed); }

  void run(void (*part)(void*, int64_t), void* self, int64_t parts) {
    if (working || parts <= 1 || size() <= 1 || !owner_.try_lock()) {
      for (int64_t i = 0; i < parts; ++i) part(self, i);
      return;
    }
    std::lock_guard<std::mutex> hold(owner_, std::adopt_lock);
    recruit();
    part_.store(part, std::memory_order_relaxed);
    self_.store(self, std::memory_order_relaxed);
    parts_.store(parts, std::memory_order_relaxed);
    ended_.store(0, std::memory_order_relaxed);
    ++job_;
    open_.store(job_ << 32 | static_cast<uint64_t>(parts), std::memory_order_seq_cst);
    wake();
    working = true;
    while (take()) {
    }
    working = false;
    for (int spins = 0; ended_.load(std::memory_order_acquire) < parts; ++spins) {
      if (spins < 2000) relax();
      else std::this_thread::yield();
    }
  }

 private:
  // Run one part of the open job, if it has one that nobody has begun.
  bool take() {
    uint64_t open = open_.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(open) != 0) {
      // These are the open job's: were it another by now, the exchange would fail.
      const auto part = part_.load(std::memory_order_relaxed);
      void* self = self_.load(std::memory_order_relaxed);
      const int64_t parts = parts_.load(std::memory_order_relaxed);
      if (open_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
        part(self, parts - static_cast<int64_t>(static_cast<uint32_t>(open)));
        ended_.fetch_add(1, std::memory_order_release);
        return true;
      }
    }
    return false;
  }

  bool open() const { return static_cast<uint32_t>(open_.load(std::memory_order_seq_cst)) != 0; }

  void recruit() {  // the caller holds owner_
    for (; hired_ < size() - 1; ++hired_) std::thread([this, me = hired_] { help(me); }).detach();
  }

  void help(int me) {
    working = true;
    looking_.fetch_add(1);
    for (;;) {
      auto until = Clock::now() + kLook;
      while (me < size() - 1) {
        if (take()) {
          until = Clock::now() + kLook;
          continue;
        }
        if (rest_.load(std::memory_order_relaxed)) break;
        for (int i = 0; i < 16 && !open(); ++i) relax();
        if (!open() && Clock::now() > until) break;
      }
      looking_.fetch_sub(1);
      std::unique_lock<std::mutex> lock(mutex_);
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      const uint64_t heard = calls_;
      bell_.wait(lock, [&] { return (open() || calls_ != heard) && me < size() - 1; });
      asleep_.fetch_sub(1, std::memory_order_seq_cst);
      looking_.fetch_add(1);
    }
  }

  alignas(64) std::atomic<uint64_t> open_{0};  // job << 32 | parts not begun
  alignas(64) std::atomic<int64_t> ended_{0};
  alignas(64) std::atomic<void (*)(void*, int64_t)> part_{nullptr};
  std::atomic<void*> self_{nullptr};
  std::atomic<int64_t> parts_{0};
  alignas(64) std::atomic<int> asleep_{0}, looking_{0}, size_{omp_get_max_threads()};
  std::atomic<bool> rest_{false};
  std::mutex owner_;  // who has the team
  uint64_t job_ = 0;
  int hired_ = 0;
  std::mutex mutex_;
  std::condition_variable bell_;
  uint64_t calls_ = 0;
};

Team* one = nullptr;

Team& team() {
  static const bool made = [] {
    one = new Team;  // helpers may outlive what runs at exit
    // Helpers do not exist in a forked child, and one may have held the lock: a new team, of one
    // thread until somebody wants more.
    pthread_atfork(nullptr, nullptr, [] {
      one = new Team;
      one->resize(1);
    });
    return true;
  }();
  (void)made;
  return *one;
}

}  // namespace

int team_size() { return team().size(); }
void team_resize(int threads) { team().resize(threads); }
bool team_awake() { return team().awake(); }
void team_wake() {
  if (team_size() > 1) team().wake();
}
void team_rest() { team().rest(); }
void team_run(void (*part)(void* self, int64_t number), void* self, int64_t parts) {
  team().run(part, self, parts);
}

}  // namespace mg
