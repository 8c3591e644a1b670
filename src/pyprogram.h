// A program as Python holds it: the signature of its inputs, and its callbacks.
#pragma once

#include "numpy.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/ahead.h"
#include "program.h"

namespace mg {

namespace nb = nanobind;

// For each result an array that it may be written into, or null. Whoever gives it has them alone.
using Targets = std::vector<PyObject*>;
// Inputs that nobody reads after a run, and where they lie in the block that they share.
using Spent = std::vector<std::pair<int, int64_t>>;

class PyProgram : Host {
 public:
  PyProgram(nb::list slots, nb::list calls, std::vector<int> returned, std::size_t arena_bytes,
            std::size_t visible, const Spent& spent);

  std::size_t arena_bytes() const { return program_.arena_bytes; }
  std::size_t kept_bytes() const { return kept_bytes_; }  // made for a backward
  std::size_t native_calls() const { return program_.calls.size() - callbacks_.size(); }
  std::size_t callback_calls() const { return callbacks_.size(); }
  nb::list callback_names() const;

  // Keep count of the time each call takes from now on, or no more.
  void measure(bool on) { program_.spent.assign(on ? program_.calls.size() : 0, 0); }

  // (operator, seconds so far) of each call, in order.
  nb::list times() const;

  // Whether a run is worth queueing: it needs no Python, and it was never short so far.
  bool worth_queueing() const;

  // Queue one run: its results as a tuple, whose values come later.
  PyObject* queue(PyObject* const* inputs, PyObject* device, Ahead& asked,
                  const Targets* targets = nullptr);

  // The results of one run, as a tuple; None where this thread is running the program already.
  // `targets`: arrays that results may be written into.
  PyObject* run(PyObject* const* inputs, PyObject* device, const Targets* targets = nullptr);

 private:
  PyObject* locked_run(PyObject* const* inputs, PyObject* device, const Targets* targets);

  // The array that an output slot lies in during one run: a new reference, or null with an error.
  PyObject* output_for(std::size_t index, PyObject* block, const Targets* targets) const;

  // Which outputs are one hidden result each and nothing else: what a backward reads. They share a
  // block where it is worth it.
  void find_kept();

  // Which call needs each input first.
  void find_needed();

  // Where the block begins that the spent inputs share.
  char* kept_base(PyObject* const* inputs) const;

  // The shortest run counts: others may have been disturbed.
  void measured(std::chrono::duration<double> took);

  // Whether every result lies in fresh memory or is a view of an input, and visible ones lie in
  // fresh memory of their own.
  bool lie_apart() const;

  struct Queued;
  struct Piece;

  // A queued run starts when its own inputs are there. Those that are late (weights that a store
  // is bringing, say) are waited for in shares: each before the first call that needs one of it.
  struct Share {
    std::size_t first = 0;  // the call that it is waited for before
    std::vector<VarPtr> reads;
  };
  std::vector<Share> shares_of(const Ahead& asked) const;
  void push(std::shared_ptr<Queued> work, const Ahead& asked, PushOptions options) const;

  PyObject* results();

  // Visible results share no memory with other results, so that each can be written to.
  bool own(PyObject* results);

  // A new reference to an array over memory that `base` keeps, or null: whoever has it sees to
  // that.
  static PyObject* array_over(void* memory, const Desc& desc, PyObject* base);

  // A new reference to an array over the memory of a slot; to a tuple of those of some.
  PyObject* array_of(int index);
  PyObject* arrays_of(const std::vector<int>& slots);

  bool callback(const Call& call, void** pointers) override;
  void release(const std::vector<int>& slots) override;
  void reached(std::size_t at) override;
  bool python(const Call& call, void** pointers);

  // Keep what a callback returned as the memory of its output slots.
  bool take(const Call& call, PyObject* made, void** pointers);

  static bool fits(PyObject* array, const Desc& desc);

  // Whether an array is a view of an input whose memory is used for something else later.
  bool shows_temporary(const Call& call, PyArrayObject* array, void** pointers) const;

  // Every number that a run uses as an index is one; a wrong plan must not write anywhere.
  void check(const Spent& spent);

  Program program_;
  std::vector<std::shared_ptr<Step>> drawing_;
  std::vector<nb::object> callbacks_;
  std::vector<std::string> labels_;  // of each call
  std::size_t visible_;
  static constexpr int64_t kWorthKeeping = 64 << 10;  // bytes
  std::vector<int64_t> kept_at_;  // of each slot: where in the block of what is kept; -1: not there
  std::size_t kept_bytes_ = 0;
  std::vector<char> temporary_;  // of each slot: its memory may be used for something else later
  int home_ = 0;  // one of the spent inputs, and where it lies in the block of what was kept
  int64_t home_offset_ = 0, room_ = 0;  // room_: bytes of that block
  bool apart_ = true;  // the results cannot share memory
  bool may_wait_ = false;  // a run needs no Python once its arrays are there
  static constexpr int64_t kShares = 16;  // at most so many shares of the bytes that are late
  std::vector<std::vector<int>> ready_;  // the results that are there after each call
  struct Needed {
    std::size_t first;  // call that uses it
    int64_t bytes;
  };
  std::vector<Needed> needed_;  // of each input
  Early* early_ = nullptr;               // who is told of it in this run
  static constexpr int kMeasured = 3;  // runs before one is queued
  std::atomic<int> runs_{0};
  std::atomic<double> seconds_{0};
  std::mutex running_;
  std::atomic<std::thread::id> owner_{};
  // of the run under way
  std::vector<PyObject*> objects_;
  std::vector<void*> pointers_;
  char* arena_ = nullptr;
  std::unordered_set<PyObject*> buffers_;
  PyObject* device_ = nullptr;
  PyThreadState* thread_ = nullptr;
};


}  // namespace mg
