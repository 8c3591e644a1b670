// How a program is made from what Python planned, and what is checked before it may run.
#include "pyprogram.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "given.h"
#include "pystep.h"

namespace mg {

PyProgram::PyProgram(nb::list slots, nb::list calls, std::vector<int> returned,
                     std::size_t arena_bytes, std::size_t visible, const Spent& spent)
    : visible_(std::min(visible, returned.size())) {
  for (nb::handle each : slots) {  // (place, where, dtype or None, shape)
    Slot slot;
    slot.place = static_cast<Place>(nb::cast<int>(each[0]));
    slot.where = nb::cast<int64_t>(each[1]);
    slot.known = !each[2].is_none();
    if (slot.known) {
      slot.desc.dtype = dtype_named(nb::cast<std::string>(each[2]));
      slot.desc.shape = nb::cast<std::vector<int64_t>>(each[3]);
    }
    program_.slots.push_back(std::move(slot));
  }
  for (nb::handle each : calls) {  // (Step or callable, in, out, free, scratch)
    Call call;
    nb::object does = each[0];
    if (nb::isinstance<PyStep>(does)) {
      auto step = nb::cast<std::shared_ptr<PyStep>>(does);
      call.step = step->step;
      labels_.push_back(step->name);
      if (call.step->draws()) drawing_.push_back(call.step);
    } else {
      call.callback = static_cast<int>(callbacks_.size());
      callbacks_.push_back(does);
      labels_.push_back(nb::cast<std::string>(does.attr("__name__")));
    }
    call.in = nb::cast<std::vector<int>>(each[1]);
    call.out = nb::cast<std::vector<int>>(each[2]);
    call.free = nb::cast<std::vector<int>>(each[3]);
    call.scratch = nb::cast<int64_t>(each[4]);
    program_.calls.push_back(std::move(call));
  }
  program_.returned = std::move(returned);
  program_.arena_bytes = arena_bytes;
  program_.prepare();
  if (!spent.empty()) std::tie(home_, home_offset_) = spent.front();
  check(spent);
  temporary_.resize(program_.slots.size());
  for (std::size_t i = 0; i < program_.slots.size(); ++i) {
    const Slot& slot = program_.slots[i];
    temporary_[i] = slot.place != Place::input && slot.place != Place::object;
  }
  for (const auto& [input, offset] : spent) temporary_[static_cast<std::size_t>(input)] = true;
  find_kept();
  std::unordered_set<int> distinct;
  for (int slot : program_.returned) {
    apart_ = apart_ && program_.slots[slot].place == Place::output && distinct.insert(slot).second;
  }
  objects_.resize(program_.slots.size());
  pointers_.resize(program_.slots.size() + 1);
  may_wait_ = callbacks_.empty() && lie_apart();
  find_needed();
  ready_.resize(program_.calls.size());
  for (std::size_t i = 0; i < program_.returned.size(); ++i) {
    const int root = program_.root(program_.returned[i]);
    for (std::size_t at = program_.calls.size(); at-- > 0;) {
      const std::vector<int>& out = program_.calls[at].out;
      if (std::none_of(out.begin(), out.end(),
                       [&](int slot) { return slot >= 0 && program_.root(slot) == root; })) {
        continue;
      }
      ready_[at].push_back(static_cast<int>(i));
      break;
    }
  }
}

void PyProgram::check(const Spent& spent) {
  const auto count = static_cast<int64_t>(program_.slots.size());
  auto known = [&](int64_t slot) { return slot >= 0 && slot < count; };
  for (const auto& [input, offset] : spent) {
    if (!known(input) || program_.slots[input].place != Place::input ||
        !program_.slots[input].known || offset < 0) {
      throw nb::value_error("Program: what is spent is no input");
    }
    room_ = std::max(room_, offset + program_.slots[input].desc.bytes());
  }
  for (const Slot& slot : program_.slots) {
    bool well = slot.where >= 0;
    if (slot.place == Place::arena) {
      well = well && slot.known &&
             static_cast<std::size_t>(slot.where + slot.desc.bytes()) <= program_.arena_bytes;
    } else if (slot.place == Place::kept) {
      well = well && slot.known && slot.where + slot.desc.bytes() <= room_;
    } else if (slot.place == Place::alias) {
      well = well && slot.known && known(slot.where);
      const Slot& root = program_.slots[well ? slot.where : 0];
      well = well && root.place != Place::alias &&
             (!root.known || slot.desc.bytes() <= root.desc.bytes());
    } else if (slot.place == Place::output) {
      well = well && slot.known;
    }
    if (!well) throw nb::value_error("Program: a slot lies outside");
  }
  for (const Call& call : program_.calls) {
    bool well = true;
    for (int slot : call.in) well = well && known(slot);
    for (int slot : call.out) well = well && (known(slot) || (slot == -1 && !call.step));
    for (int slot : call.free) well = well && known(slot);
    if (call.step) {
      well = well && call.scratch >= 0 &&
             call.scratch + call.step->scratch() <= program_.arena_bytes;
    }
    if (!well) throw nb::value_error("Program: a step names a slot that does not exist");
  }
  for (int slot : program_.returned) {
    if (!known(slot)) throw nb::value_error("Program: a result is no slot");
  }
}

void PyProgram::find_kept() {
  std::unordered_map<int, int> users;
  for (int slot : program_.returned) ++users[program_.root(slot)];
  kept_at_.assign(program_.slots.size(), -1);
  for (std::size_t i = visible_; i < program_.returned.size(); ++i) {
    const int slot = program_.returned[i];
    const int64_t bytes = program_.slots[slot].desc.bytes();
    if (program_.slots[slot].place != Place::output || users[slot] != 1 || bytes < kWorthKeeping) {
      continue;
    }
    kept_at_[slot] = static_cast<int64_t>(kept_bytes_);
    kept_bytes_ += static_cast<std::size_t>((bytes + 63) / 64 * 64);
  }
}

void PyProgram::find_needed() {
  std::vector<std::size_t> first_call(program_.slots.size(), program_.calls.size());
  for (std::size_t at = program_.calls.size(); at-- > 0;) {
    for (const auto* used : {&program_.calls[at].in, &program_.calls[at].out}) {
      for (int slot : *used) {
        if (slot >= 0) first_call[static_cast<std::size_t>(program_.root(slot))] = at;
      }
    }
  }
  for (std::size_t i = 0; i < program_.slots.size(); ++i) {
    const Slot& slot = program_.slots[i];
    if (slot.place != Place::input) continue;
    const auto number = static_cast<std::size_t>(slot.where);
    if (number >= needed_.size()) needed_.resize(number + 1, {program_.calls.size(), 0});
    needed_[number].first = std::min(needed_[number].first, first_call[i]);
    needed_[number].bytes = slot.desc.bytes();
  }
}

bool PyProgram::lie_apart() const {
  std::unordered_map<int, int> users;
  for (int slot : program_.returned) ++users[program_.root(slot)];
  for (std::size_t i = 0; i < program_.returned.size(); ++i) {
    const int root = program_.root(program_.returned[i]);
    const Place place = program_.slots[root].place;
    if (i < visible_ ? place != Place::output || users[root] > 1
                     : place != Place::output && place != Place::input) {
      return false;
    }
  }
  return true;
}

nb::list PyProgram::callback_names() const {
  nb::list names;
  for (const nb::object& each : callbacks_) names.append(each.attr("__name__"));
  return names;
}

nb::list PyProgram::times() const {
  nb::list made;
  for (std::size_t i = 0; i < program_.spent.size(); ++i) {
    made.append(nb::make_tuple(labels_[i], static_cast<double>(program_.spent[i]) * 1e-9));
  }
  return made;
}

}  // namespace mg
