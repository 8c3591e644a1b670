// Running ahead: native programs that are queued, while Python goes on.
//
// A program is queued only for a caller that can take results which are not there yet, and that
// knows the variables of everything the program reads. It says so with an Ahead around the call.
#pragma once

#include <vector>

#include "engine/python.h"

namespace mg {

struct Ahead {
  std::vector<VarPtr> reads, writes;  // all that the program may read or write of what is there
  VarPtr results;                     // set where it was queued: the variable of what it makes
};

// What the caller on this thread allows; taken (and set to null) by the first program that is called.
extern thread_local Ahead* ahead;

// From how many seconds on a program is queued; infinite where nothing is.
double worth_queueing();

}  // namespace mg
