// Running ahead: native programs that are queued, while Python goes on.
//
// A program is queued only for a caller that can take results which are not there yet, and that
// knows the variables of everything the program reads. It says so with an Ahead around the call.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/python.h"

namespace mg {

// Tells of each result of a queued program when it is there, while the program goes on.
class Early {
 public:
  using Then = std::function<void(FaultPtr)>;

  // `results`: the arrays that will hold them; only compared with.
  explicit Early(std::vector<PyObject*> results)
      : results_(std::move(results)), there_(results_.size()), waiting_(results_.size()) {}

  // The number of a result; -1: it is none.
  int number_of(PyObject* array) const {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (results_[i] == array) return static_cast<int>(i);
    }
    return -1;
  }

  // Do this once result `number` is there (at once where it is), on the program's thread; with a
  // fault where it will never be. One for each result.
  void then(int number, Then does) {
    FaultPtr fault;
    {
      std::lock_guard<std::mutex> hold(mutex_);
      if (there_[number] == 0) {
        waiting_[number] = std::move(does);
        return;
      }
      fault = there_[number] == kLost ? fault_ : nullptr;
    }
    does(std::move(fault));
  }

  void reached(int number) { settle(number, nullptr); }

  // The program has ended, or will not run: what has not come yet is there, or lost by this fault.
  void close(const FaultPtr& fault) {
    for (std::size_t i = 0; i < results_.size(); ++i) settle(static_cast<int>(i), fault);
  }

 private:
  static constexpr char kThere = 1, kLost = 2;

  void settle(int number, const FaultPtr& fault) {
    Then does;
    {
      std::lock_guard<std::mutex> hold(mutex_);
      if (there_[number] != 0) return;
      there_[number] = fault ? kLost : kThere;
      if (fault) fault_ = fault;
      does = std::move(waiting_[number]);
    }
    if (does) does(fault);
  }

  std::mutex mutex_;
  const std::vector<PyObject*> results_;
  std::vector<char> there_;
  std::vector<Then> waiting_;
  FaultPtr fault_;
};

struct Ahead {
  std::vector<VarPtr> reads, writes;  // all that the program may read or write of what is there
  // What it reads and need not wait for to start: variables, and which input each is of.
  std::vector<std::pair<VarPtr, std::size_t>> late;
  VarPtr results;                     // set where it was queued: the variable of what it makes
  bool wants_early = false;           // set `early` where it was queued
  std::shared_ptr<Early> early;
};

// What the caller on this thread allows; taken (and set to null) by the first program that is called.
extern thread_local Ahead* ahead;

// What a backward gives up to the program of one operator's gradient: what the forward kept for it,
// and the gradient arrays that will be overwritten.
struct Spending {
  struct Target {
    PyObject* array = nullptr;  // its memory is the tape's alone; null: none
    VarPtr var;
  };
  PyObject* op = nullptr;       // the operator whose gradient it is
  std::vector<Target> targets;  // for each input of the operator, where its gradient may go
  bool begun = false;           // set by the program that took it: what was kept is lost
};
// What the walk on this thread gives up; taken (and set to null) by the program it is for.
extern thread_local Spending* spending;

// From how many seconds on a program is queued; infinite where nothing is.
double worth_queueing();

}  // namespace mg
