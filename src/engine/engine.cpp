// The engine's queues and threads. Everything is under one mutex; it is held for moments only,
// and never while work runs or is thrown away.
#include "engine.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

namespace mg {
namespace {

// The items that this thread is inside of.
thread_local std::vector<Item*> inside;

}  // namespace

Engine::~Engine() {
  stop();
  delete workers_;
}

void Engine::limit(std::size_t items, std::size_t bytes) {
  Lock lock(mutex_);
  most_ = items;
  most_bytes_ = bytes;
}

// -- what is done under the mutex -----------------------------------------------------------------

// A forked child owns none of its parent's work: what a variable waited for will not come.
void Engine::fresh(Var& var) {
  if (var.generation_ == generation_) return;
  var.generation_ = generation_;
  for (const Var::Use& use : var.uses_) {
    if (!use.write) continue;
    var.orphan_ = use.item->what_;
    var.marked_.store(true);
  }
  var.uses_.clear();
  var.writes_.store(0);
  var.count_.store(0);
}

void Engine::use(Var& var, Item& item, bool write) {
  fresh(var);
  const bool now = write ? var.uses_.empty() : !var.writing();
  var.uses_.push_back({&item, write, now});
  var.count_.fetch_add(1, std::memory_order_relaxed);
  if (write) var.writes_.fetch_add(1, std::memory_order_relaxed);
  if (!now) ++item.waits_;
}

void Engine::enter(const ItemPtr& item) {
  item->number_ = ++numbers_;
  item->generation_ = generation_;
  item->place_ = open_.insert(open_.end(), item);
  for (const VarPtr& var : item->reads_) use(*var, *item, false);
  for (const VarPtr& var : item->writes_) use(*var, *item, true);
  if (item->work_) {
    ++queued_;
    bytes_ += item->bytes_;
    held_ += item->held_;
  }
  if (item->waits_ == 0) granted(*item);
}

void Engine::granted(Item& item) {
  item.granted_ = true;
  if (!item.work_) {
    if (tracing_) item.began_ = Clock::now();
    announce();
    return;
  }
  ready_.push(*item.place_);
  ready_now_.notify_one();
  if (helpers_) something_ended_.notify_all();
}

// The uses at the front that may go on now: a write alone, or all reads before the next write.
void Engine::grant(Var& var) {
  for (std::size_t i = 0; i < var.uses_.size(); ++i) {
    Var::Use& use = var.uses_[i];
    if (use.write && i != 0) return;
    if (!use.granted) {
      use.granted = true;
      if (--use.item->waits_ == 0) granted(*use.item);
    }
    if (use.write) return;
  }
}

void Engine::leave(Var& var, Item& item, bool write) {
  auto at = std::find_if(var.uses_.begin(), var.uses_.end(),
                         [&](const Var::Use& use) { return use.item == &item; });
  var.uses_.erase(at);
  if (write) var.writes_.fetch_sub(1, std::memory_order_release);
  var.count_.fetch_sub(1, std::memory_order_release);
  grant(var);
}

// A variable's fault from now on; null: it has none.
void Engine::mark(Var& var, FaultPtr fault) {
  if (!fault && !var.fault_) return;
  var.fault_ = std::move(fault);
  var.marked_.store(var.fault_ != nullptr || !var.orphan_.empty(), std::memory_order_release);
}

// Keep a fault for `unseen`, as long as nobody has seen it.
void Engine::remember(const FaultPtr& fault) {
  unseen_.erase(std::remove_if(unseen_.begin(), unseen_.end(),
                               [&](const FaultPtr& each) { return each == fault || each->seen(); }),
                unseen_.end());
  if (!fault->seen()) unseen_.push_back(fault);
}

void Engine::finish(const ItemPtr& item, FaultPtr fault) {
  item->fault_ = fault;
  item->ended_ = true;
  if (tracing_ && item->began_ != Clock::time_point()) {
    spans_.push_back({item->what_, item->began_, Clock::now(), item->work_ != nullptr});
  }
  if (fault) remember(fault);
  for (const VarPtr& var : item->writes_) {
    if (fault || item->work_) mark(*var, fault);
    leave(*var, *item, true);
  }
  for (const VarPtr& var : item->reads_) leave(*var, *item, false);
  if (item->work_) {
    --queued_;
    bytes_ -= item->bytes_;
    held_ -= item->held_;
  }
  open_.erase(item->place_);
  announce();
}

void Engine::announce() {
  if (waiters_) something_ended_.notify_all();
  if (told_ >= 0 && teller_ != std::this_thread::get_id()) {
    const uint64_t one = 1;
    if (::write(told_, &one, sizeof one) < 0) told_ = -1;  // then it looks now and then
  }
}

void Engine::tell(int descriptor) {
  Lock lock(mutex_);
  told_ = descriptor;
  teller_ = std::this_thread::get_id();
}

// -- running --------------------------------------------------------------------------------------

// Run the ready item of the highest priority on this thread.
void Engine::run_one(Lock& lock) {
  ItemPtr item = ready_.top();
  ready_.pop();
  FaultPtr fault;
  for (const auto* list : {&item->reads_, &item->writes_}) {
    for (const VarPtr& var : *list) {
      if (!fault && var->fault_ && !var->fault_->seen()) fault = var->fault_;
    }
  }
  ++running_;
  const bool brief = item->work_->brief();
  brief_ += brief;
  if (tracing_) item->began_ = Clock::now();
  lock.unlock();
  if (!fault) {
    inside.push_back(item.get());
    try {
      fault = item->work_->run();
    } catch (const std::exception& error) {
      fault = std::make_shared<NativeFault>(error.what());
    }
    if (!inside.empty()) inside.pop_back();  // empty: forked meanwhile, and this is the child
  }
  lock.lock();
  if (item->generation_ != generation_) return;
  --running_;
  brief_ -= brief;
  finish(item, std::move(fault));
  std::unique_ptr<Work> done = std::move(item->work_);
  lock.unlock();
  done.reset();
  lock.lock();
}

void Engine::work() {
  sigset_t all;  // signals are for the other threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  Lock lock(mutex_);
  for (const uint64_t born = generation_; born == generation_;) {
    ready_now_.wait(lock, [&] { return stopped_ || (!ready_.empty() && !paused_); });
    if (stopped_) return;
    run_one(lock);
  }
}

void Engine::start() {
  while (static_cast<int>(workers_->size()) < threads_) {
    workers_->emplace_back([this] { work(); });
  }
}

ItemPtr Engine::push(std::unique_ptr<Work> work, std::vector<VarPtr> reads,
                     std::vector<VarPtr> writes, const PushOptions& options) {
  auto once = [](std::vector<VarPtr>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  once(reads);
  once(writes);
  reads.erase(std::remove_if(reads.begin(), reads.end(),
                             [&](const VarPtr& var) {
                               return std::binary_search(writes.begin(), writes.end(), var);
                             }),
              reads.end());
  auto item = std::make_shared<Item>();
  item->work_ = std::move(work);
  item->reads_ = std::move(reads);
  item->writes_ = std::move(writes);
  item->priority_ = options.priority;
  item->bytes_ = options.bytes;
  item->held_ = options.held;
  item->what_ = options.what;
  Lock lock(mutex_);
  enter(item);
  if (!item->work_) return item;
  if (threads() > 0) {
    start();
  } else {
    // Without workers, whoever pushes does what is ready, also what has become so meanwhile. What
    // waits for an item that this thread is inside of is done when that ends.
    for (;;) {
      if (!ready_.empty()) {
        run_one(lock);
      } else if (item->ended_ || !inside.empty()) {
        break;
      } else {
        ++waiters_, ++helpers_;
        something_ended_.wait(lock);
        --waiters_, --helpers_;
      }
    }
  }
  return item;
}

ItemPtr Engine::begin(std::vector<VarPtr> writes, const std::string& what,
                      std::vector<VarPtr> reads) {
  PushOptions options;
  options.what = what;
  return push(nullptr, std::move(reads), std::move(writes), options);
}

void Engine::end(const ItemPtr& item, FaultPtr fault) {
  Lock lock(mutex_);
  if (item->ended_ || item->generation_ != generation_) return;
  finish(item, std::move(fault));
}

// -- waiting --------------------------------------------------------------------------------------

template <class Done>
bool Engine::wait(Lock& lock, Clock::time_point deadline, Done done) {
  while (!done()) {
    const bool helps = !inside.empty() || threads() == 0;
    if (helps && !ready_.empty() && !paused_) {
      run_one(lock);
      continue;
    }
    if (deadline == Clock::time_point()) return false;
    ++waiters_;
    helpers_ += helps;
    const auto why = something_ended_.wait_until(lock, deadline);
    --waiters_;
    helpers_ -= helps;
    if (why == std::cv_status::timeout) return done();
  }
  return true;
}

bool Engine::wait_room(Clock::time_point deadline, std::size_t wanted) {
  Lock lock(mutex_);
  if (!inside.empty() || threads() == 0) return true;
  return wait(lock, deadline, [&] {
    const bool fits = wanted == 0 || held_ == 0 || held_ + wanted < 4 * most_bytes_;
    return queued_ == 0 || (queued_ < most_ && bytes_ < most_bytes_ && fits);
  });
}

bool Engine::wait_started(const ItemPtr& item, Clock::time_point deadline) {
  Lock lock(mutex_);
  return wait(lock, deadline, [&] { return item->granted_; });
}

bool Engine::wait_ended(const ItemPtr& item, Clock::time_point deadline) {
  Lock lock(mutex_);
  return wait(lock, deadline, [&] { return item->ended_; });
}

uint64_t Engine::ticket() {
  Lock lock(mutex_);
  return numbers_;
}

bool Engine::is_free(Var& var, bool to_write, uint64_t before) const {
  for (const Var::Use& use : var.uses_) {
    if (use.item->number_ > before) return true;
    // What this thread is inside of holds the variable, and what came later waits for it.
    if (std::find(inside.begin(), inside.end(), use.item) != inside.end()) return true;
    if (use.write || to_write) return false;
  }
  return true;
}

bool Engine::wait_var(Var& var, bool to_write, uint64_t before, Clock::time_point deadline) {
  Lock lock(mutex_);
  fresh(var);
  return wait(lock, deadline, [&] { return is_free(var, to_write, before); });
}

bool Engine::wait_all(Clock::time_point deadline) {
  Lock lock(mutex_);
  const uint64_t before = inside.empty() ? UINT64_MAX : inside.front()->number_ - 1;
  return wait(lock, deadline,
              [&] { return open_.empty() || open_.front()->number_ > before; });
}

// -- faults ---------------------------------------------------------------------------------------

FaultPtr Engine::fault_of(Var& var, bool clear) {
  Lock lock(mutex_);
  FaultPtr found = var.fault_;
  if (clear || (found && found->seen())) mark(var, nullptr);
  return found && !found->seen() ? found : nullptr;
}

void Engine::fail(Var& var, FaultPtr fault) {
  Lock lock(mutex_);
  remember(fault);
  mark(var, std::move(fault));
}

std::vector<FaultPtr> Engine::unseen() {
  Lock lock(mutex_);
  std::vector<FaultPtr> found = std::exchange(unseen_, {});
  found.erase(std::remove_if(found.begin(), found.end(),
                             [](const FaultPtr& fault) { return fault->seen(); }),
              found.end());
  return found;
}

std::string Engine::pending(Var* var) {
  Lock lock(mutex_);
  if (var == nullptr) return open_.empty() ? "" : open_.front()->what_;
  fresh(*var);
  return var->uses_.empty() ? "" : var->uses_.front().item->what_;
}

std::string Engine::orphan(Var& var) {
  Lock lock(mutex_);
  fresh(var);
  return var.orphan_;
}

bool Engine::held(const VarPtr& var) const {
  return std::any_of(inside.begin(), inside.end(), [&](const Item* item) {
    for (const auto* list : {&item->reads_, &item->writes_}) {
      if (std::find(list->begin(), list->end(), var) != list->end()) return true;
    }
    return false;
  });
}

std::size_t Engine::open() {
  Lock lock(mutex_);
  return open_.size();
}

void Engine::trace(bool on) {
  Lock lock(mutex_);
  tracing_ = on;
}

std::vector<Engine::Span> Engine::spans() {
  Lock lock(mutex_);
  return std::exchange(spans_, {});
}

// -- forks and the end ----------------------------------------------------------------------------

void Engine::pause() {
  Lock lock(mutex_);
  ++paused_;
  const int own = static_cast<int>(std::count_if(
      inside.begin(), inside.end(), [](const Item* item) { return item->work_->brief(); }));
  ++waiters_;
  something_ended_.wait(lock, [&] { return brief_ <= own; });
  --waiters_;
}

void Engine::resume() {
  Lock lock(mutex_);
  if (--paused_ == 0) {
    ready_now_.notify_all();
    something_ended_.notify_all();
  }
}

void Engine::after_fork_in_child() {
  // The forking thread holds the mutex; whoever waited for anything does not exist here.
  new (&mutex_) std::mutex;
  new (&ready_now_) std::condition_variable;
  new (&something_ended_) std::condition_variable;
  workers_ = new std::vector<std::thread>;
  new std::list<ItemPtr>(std::move(open_));  // the parent's: never to be run or freed here
  new std::vector<FaultPtr>(std::move(unseen_));
  new decltype(ready_)(std::move(ready_));
  open_ = {};
  unseen_ = {};
  ready_ = {};
  spans_.clear();
  inside.clear();
  running_ = brief_ = waiters_ = helpers_ = paused_ = 0;
  queued_ = bytes_ = held_ = 0;
  ending_ = false;
  told_ = -1;
  ++generation_;
}

void Engine::stop() {
  std::vector<std::thread> ended;
  {
    Lock lock(mutex_);
    if (stopped_ || ending_) return;
    ending_ = true;
    if (!workers_->empty()) {
      ++waiters_;
      something_ended_.wait(lock, [&] { return ready_.empty() && running_ == 0; });
      --waiters_;
    }
    stopped_ = true;
    ended.swap(*workers_);
    ready_now_.notify_all();
  }
  for (std::thread& worker : ended) worker.join();
}

void Engine::restart(int threads) {
  Lock lock(mutex_);
  threads_ = threads;
  stopped_ = ending_ = false;
}

}  // namespace mg
