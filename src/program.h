// A graph as a list of prepared steps over numbered slots; runs without the GIL but where a step
// is a Python callback. Nothing here knows Python: callbacks and arrays come through Host.
#pragma once

#include "kernel.h"
#include "pool.h"

namespace mg {

// Where the memory of a slot is.
enum class Place : int32_t {
  input,   // array number `where` of the call
  output,  // fresh array number `where`, handed out
  arena,   // `where` bytes into the arena
  object,  // an array that a callback returned
  alias,   // the memory of slot number `where` in another shape
  kept,    // `where` bytes into the block of the inputs that the caller gives up
};

struct Slot {
  Place place;
  int64_t where;
  bool known;  // whether `desc` is
  Desc desc;
};

struct Call {
  std::shared_ptr<Step> step;  // null: callback
  int callback = -1;
  std::vector<int> in, out;  // slots; -1 in `out`: nobody wants it
  std::vector<int> free;     // object slots that nobody reads after this step
  int64_t scratch = 0;       // offset of temporary memory in the arena
};

// What the executor needs from the side that knows Python.
struct Host {
  virtual ~Host() = default;
  // Run one callback step; fills the pointers of its output slots. False: an error is set.
  virtual bool callback(const Call& call, void** pointers) = 0;
  // Let go of the arrays of these slots.
  virtual void release(const std::vector<int>& slots) = 0;
  // Call number `at` has been made; said only while `watches`.
  virtual void reached(std::size_t at) = 0;
  bool watches = false;
};

struct Program {
  std::vector<Slot> slots;
  std::vector<Call> calls;
  std::vector<int> returned;
  std::size_t arena_bytes = 0;

  // Pointers of input, output and arena slots are set; those of object slots follow.
  // `pointers` has an element for each slot. Makes the calls from `first` up to `end`.
  bool run(void** pointers, Host& host, std::size_t first, std::size_t end);
  // The slot whose memory this slot uses.
  int root(int slot) const {
    return slots[slot].place == Place::alias ? static_cast<int>(slots[slot].where) : slot;
  }

  std::vector<void*> gather;  // pointers of one step
  std::vector<int64_t> spent;  // nanoseconds of each call so far; empty: not measured
  void prepare();

 private:
  double took = 0;  // nanoseconds of the last whole run
};

}  // namespace mg
