// In what order things happen to variables, and on which thread. Nothing here knows Python.
//
// An item says which variables it reads and which it writes. It runs after all earlier writes of
// what it reads, and after all earlier reads and writes of what it writes; what is ready runs by
// priority on a few worker threads. An item that fails leaves its fault in what it should have
// written; items that need those variables do not run, and hand the fault on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

namespace mg {

// What went wrong; shared by everything that depends on it, and reported once.
struct Fault {
  virtual ~Fault() = default;
  // True the first time only: who gets it has to report the fault.
  bool see() { return !seen_.exchange(true); }
  bool seen() const { return seen_.load(); }

 private:
  std::atomic<bool> seen_{false};
};
using FaultPtr = std::shared_ptr<Fault>;

// A fault of native code.
struct NativeFault : Fault {
  explicit NativeFault(std::string said) : text(std::move(said)) {}
  const std::string text;
};

// What an item does.
struct Work {
  virtual ~Work() = default;
  // Do it, on any thread; what went wrong, or null.
  virtual FaultPtr run() = 0;
  // Whether run() ends by itself, soon, whatever other threads do: a fork waits for it then.
  virtual bool brief() const { return true; }
};

class Item;
using ItemPtr = std::shared_ptr<Item>;

// The order of reads and writes of one buffer.
class Var {
 public:
  // Whether a write (or any use) is not done yet; what has been written is visible where not.
  bool writing() const { return writes_.load(std::memory_order_acquire) != 0; }
  bool used() const { return count_.load(std::memory_order_acquire) != 0; }
  // Whether something went wrong (that perhaps somebody has seen meanwhile).
  bool marked() const { return marked_.load(std::memory_order_acquire); }

 private:
  friend class Engine;
  struct Use {
    Item* item;
    bool write, granted;
  };
  std::deque<Use> uses_;  // unfinished ones, in the order of their coming
  std::atomic<int> writes_{0}, count_{0};
  std::atomic<bool> marked_{false};
  FaultPtr fault_;
  uint64_t generation_ = 0;
  std::string orphan_;  // the write that was under way when the process was forked
};
using VarPtr = std::shared_ptr<Var>;

// One piece of work and what it needs.
class Item {
 public:
  const std::string& what() const { return what_; }
  // What came of it, once it has ended.
  const FaultPtr& fault() const { return fault_; }

 private:
  friend class Engine;
  std::unique_ptr<Work> work_;  // null: somebody else does it and says when it ended
  std::vector<VarPtr> reads_, writes_;
  int priority_ = 0;
  uint64_t number_ = 0, generation_ = 0;
  std::size_t bytes_ = 0, held_ = 0, waits_ = 0;  // `waits_`: uses that are not granted yet
  bool granted_ = false, ended_ = false;
  std::string what_;
  FaultPtr fault_;
  std::list<ItemPtr>::iterator place_;
  std::chrono::steady_clock::time_point began_;
};

struct PushOptions {
  int priority = 0;       // among what is ready, the highest first
  std::size_t bytes = 0;  // memory that waits with it, for the limit on running ahead
  std::size_t held = 0;   // memory of others that it holds until it has ended
  std::string what = "work";
};

class Engine {
 public:
  using Clock = std::chrono::steady_clock;

  // When an item was done: from its start, or from when somebody else could do it, to its end.
  struct Span {
    std::string what;
    Clock::time_point began, ended;
    bool work;  // by a thread of the engine
  };

  // `threads` workers, started when first needed; 0: push() returns when the item has ended.
  explicit Engine(int threads) : threads_(threads) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  int threads() const { return stopped_ ? 0 : threads_.load(); }
  // How many items, and how many bytes, may wait before `wait_room` does. Of what items hold for a
  // time, four times as many bytes.
  void limit(std::size_t items, std::size_t bytes);

  // Queue an item. With threads it never waits, so that an item may push others.
  ItemPtr push(std::unique_ptr<Work> work, std::vector<VarPtr> reads, std::vector<VarPtr> writes,
               const PushOptions& options = {});
  // An item that somebody else does: from `wait_started` on, until `end`.
  ItemPtr begin(std::vector<VarPtr> writes, const std::string& what,
                std::vector<VarPtr> reads = {});
  void end(const ItemPtr& item, FaultPtr fault);

  // All these wait until something is so, or until the deadline, and say whether it is; without
  // one (a time of 0) they only look. Inside an
  // item, what the item itself holds is not waited for, and other items are run meanwhile.
  // `wanted`: bytes that an item will make for another one, which then holds them.
  bool wait_room(Clock::time_point deadline, std::size_t wanted = 0);
  bool wait_started(const ItemPtr& item, Clock::time_point deadline);
  bool wait_ended(const ItemPtr& item, Clock::time_point deadline);
  // For all writes (for all uses, too) that were pushed before `ticket()` was asked.
  uint64_t ticket();
  bool wait_var(Var& var, bool to_write, uint64_t before, Clock::time_point deadline);
  bool wait_all(Clock::time_point deadline);  // inside an item: for what came before it
  // Whoever does not sleep here but in the system, at a descriptor: this one becomes readable when
  // other threads end something. -1: nobody does any more.
  void tell(int descriptor);

  // The fault of a variable, if nobody has seen it; `clear`: it is forgotten here.
  FaultPtr fault_of(Var& var, bool clear);
  void fail(Var& var, FaultPtr fault);
  // Faults that nobody has seen; they are forgotten here.
  std::vector<FaultPtr> unseen();
  // What the first unfinished use of a variable (of all, without one) is; empty: there is none.
  std::string pending(Var* var);
  // The write that a fork has cut off from this process; empty: none.
  std::string orphan(Var& var);
  // Whether this thread is inside an item that holds the variable.
  bool held(const VarPtr& var) const;
  // How many items have not ended.
  std::size_t open();
  // Keep the spans of items from now on, or no more; and those that were kept, which are forgotten.
  void trace(bool on);
  std::vector<Span> spans();

  // Around a fork. `pause` waits for brief work under way and holds the workers; `lock` must be
  // the last thing before it (no other engine call may be between).
  void pause();
  void resume();
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void after_fork_in_child();

  // Run what is ready, end the workers. Later items run within push.
  void stop();
  // After `stop`: with so many workers from now on.
  void restart(int threads);

 private:
  struct Later {
    bool operator()(const ItemPtr& a, const ItemPtr& b) const {
      return a->priority_ != b->priority_ ? a->priority_ < b->priority_ : a->number_ > b->number_;
    }
  };
  using Lock = std::unique_lock<std::mutex>;

  void enter(const ItemPtr& item);
  void fresh(Var& var);
  void use(Var& var, Item& item, bool write);
  void grant(Var& var);
  void granted(Item& item);
  void leave(Var& var, Item& item, bool write);
  void mark(Var& var, FaultPtr fault);
  void remember(const FaultPtr& fault);
  void finish(const ItemPtr& item, FaultPtr fault);
  void announce();
  void run_one(Lock& lock);
  void work();
  void start();
  template <class Done>
  bool wait(Lock& lock, Clock::time_point deadline, Done done);
  bool is_free(Var& var, bool to_write, uint64_t before) const;

  std::mutex mutex_;
  std::condition_variable ready_now_, something_ended_;
  std::priority_queue<ItemPtr, std::vector<ItemPtr>, Later> ready_;
  std::list<ItemPtr> open_;  // all that have not ended, in the order of their coming
  std::vector<std::thread>* workers_ = new std::vector<std::thread>;  // leaked in a forked child
  std::vector<FaultPtr> unseen_;
  std::vector<Span> spans_;
  bool tracing_ = false;
  int told_ = -1;  // a descriptor to write to, and the thread that needs no word
  std::thread::id teller_;
  std::atomic<int> threads_;
  int running_ = 0, brief_ = 0, waiters_ = 0, helpers_ = 0, paused_ = 0;
  std::atomic<bool> stopped_{false};
  bool ending_ = false;
  uint64_t numbers_ = 0, generation_ = 0;
  std::size_t queued_ = 0, bytes_ = 0, held_ = 0, most_ = 64, most_bytes_ = std::size_t{64} << 20;
};

}  // namespace mg
