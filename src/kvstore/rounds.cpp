// A server's end of messages that repeat: one shard that all workers push and pull in one message
// of known bytes each, round after round. While nothing else comes, a round is done here: their
// numbers are summed in the order of ranks, and everybody gets the sum. Whatever looks otherwise
// stays in its socket, and what has come of an open round is given back, as it came: Python's state
// machine handles both, and is told first how many rounds there have been (kvstore/dist/rounds.py).
#include "lanes.h"

#ifdef __linux__

#include <nanobind/nanobind.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "../away.h"
#include "../numpy.h"

namespace nb = nanobind;

namespace mg {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kAligned = 64;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Bytes that begin at a cache line, `before` bytes into memory of their own.
class Buffer {
 public:
  Buffer(std::size_t before, std::size_t size) : memory_(before + size + kAligned) {
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.data()) + before;
    start_ = memory_.data() + before + (kAligned - start % kAligned) % kAligned;
  }
  Buffer(Buffer&&) = default;
  char* data() { return start_; }

 private:
  std::vector<char> memory_;
  char* start_;
};

class Rounds {
 public:
  Rounds(int epoll, std::size_t seq_at, nb::handle value)
      : epoll_(epoll), seq_at_(seq_at), value_(nb::borrow(value)) {
    PyArrayObject* array = as_array(value.ptr());
    if (!PyArray_Check(value.ptr()) || !is_dense(array) || !PyArray_ISWRITEABLE(array)) {
      throw nb::type_error("rounds: expected a dense array to write to");
    }
    type_ = dtype_of(PyArray_TYPE(array));
    to_ = static_cast<char*>(PyArray_DATA(array));
    bytes_ = PyArray_NBYTES(array);
    size_ = PyArray_SIZE(array);
    sum_.resize(bytes_);
    if (!sum_raw(type_, {to_}, sum_.data(), size_)) {
      throw nb::type_error("rounds: a type that is not summed here");
    }
  }

  Rounds(const Rounds&) = delete;

  // The next rank: what its requests and their answers look like, the latest number seen.
  void add(int descriptor, nb::bytes request, std::size_t room, nb::bytes reply,
           std::size_t reply_room, uint64_t latest) {
    const Form form{std::string(request.c_str(), request.size()), room};
    if (form.size() > kMostBytes || room < bytes_ || reply_room < bytes_ ||
        std::min(request.size(), reply.size()) < seq_at_ + sizeof latest) {
      throw nb::value_error("rounds: messages that do not hold the value");
    }
    workers_.emplace_back(descriptor, form, std::string(reply.c_str(), reply.size()), latest);
    sum_.resize(std::max(sum_.size(), reply_room));
    workers_.back().reply_room = reply_room;
  }

  // Do rounds as they come, so many seconds at most, until something else comes: then true.
  bool turn(double seconds) {
    Away away;
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(seconds));
    std::array<epoll_event, 64> events;
    for (bool other = false; !other;) {
      const double left = std::max(0.0, 1e3 * seconds_between(Clock::now(), until));
      const int count = epoll_wait(epoll_, events.data(), events.size(), static_cast<int>(left));
      if (count <= 0) return count < 0;
      for (int i = 0; i < count; ++i) {
        Worker* worker = find(events[i].data.fd);
        if (worker == nullptr || (events[i].events & ~EPOLLIN) != 0 || !take(*worker)) {
          other = true;
        }
      }
      if (order_.size() == workers_.size() && !complete()) return true;
    }
    return true;
  }

  // (descriptor, bytes) of what has come of an open round; it is not known here any more.
  nb::list held() {
    nb::list made;
    for (std::size_t index : order_) {
      Worker& worker = workers_[index];
      worker.held = false;
      made.append(nb::make_tuple(worker.descriptor,
                                 nb::bytes(worker.message(), worker.request.size())));
    }
    order_.clear();
    return made;
  }

  // (descriptor, bytes) of answers that could not be sent at once.
  nb::list unsent() {
    nb::list made;
    for (Worker& worker : workers_) {
      if (worker.rest.empty()) continue;
      made.append(nb::make_tuple(worker.descriptor,
                                 nb::bytes(worker.rest.data(), worker.rest.size())));
      worker.rest.clear();
    }
    return made;
  }

  // Since the last time: rounds, seconds of summing, and for each rank its latest request and for
  // how many seconds it was waited for.
  nb::tuple progress() {
    nb::list latest, waited;
    for (Worker& worker : workers_) {
      latest.append(worker.latest);
      waited.append(std::exchange(worker.waited, 0.0));
    }
    return nb::make_tuple(std::exchange(rounds_, 0), std::exchange(summing_, 0.0), latest, waited);
  }

 private:
  struct Worker {
    Worker(int end, const Form& form, std::string answer, uint64_t seen)
        : descriptor(end), request(form), reply(std::move(answer)), latest(seen),
          buffer(form.head.size(), form.size()) {}
    char* message() { return buffer.data() - request.head.size(); }

    int descriptor;
    Form request;
    std::string reply;
    std::size_t reply_room = 0;
    uint64_t latest;        // answered, or taken on by Python
    Buffer buffer;          // its message, the numbers at a cache line
    bool held = false;
    double waited = 0;
    std::string rest;
  };

  Worker* find(int descriptor) {
    for (Worker& worker : workers_) {
      if (worker.descriptor == descriptor) return &worker;
    }
    return nullptr;
  }

  // Whether the next message of a worker is one of the round, and is held now.
  bool take(Worker& worker) {
    if (worker.held) return false;
    const std::size_t size = worker.request.size();
    const ssize_t got = ::recv(worker.descriptor, worker.message(), size, MSG_PEEK | MSG_DONTWAIT);
    if (got != static_cast<ssize_t>(size) ||
        !worker.request.fits(worker.message(), size, seq_at_) ||
        number_in(worker.message(), seq_at_) <= worker.latest ||
        ::recv(worker.descriptor, worker.message(), size, MSG_DONTWAIT) != got) {
      return false;
    }
    const auto now = Clock::now();
    if (order_.empty()) began_ = now;
    came_ = now;
    worker.held = true;
    order_.push_back(static_cast<std::size_t>(&worker - workers_.data()));
    return true;
  }

  // Everybody's numbers are here: sum, answer; false where an answer did not go out.
  bool complete() {
    std::vector<const char*> pieces;
    for (Worker& worker : workers_) pieces.push_back(worker.buffer.data());
    sum_raw(type_, pieces, sum_.data(), size_);
    std::memcpy(to_, sum_.data(), bytes_);
    summing_ += seconds_between(came_, Clock::now());
    workers_[order_.back()].waited += seconds_between(began_, came_);
    order_.clear();
    ++rounds_;
    bool all = true;
    for (Worker& worker : workers_) {
      worker.held = false;
      worker.latest = number_in(worker.message(), seq_at_);
      put_number(worker.reply.data(), seq_at_, worker.latest);
      all = answer(worker) && all;
    }
    return all;
  }

  bool answer(Worker& worker) {
    const std::size_t head = worker.reply.size(), size = head + worker.reply_room;
    iovec parts[2] = {{worker.reply.data(), head}, {sum_.data(), worker.reply_room}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(worker.descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(size)) return true;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return true;  // its end is seen by reading
    worker.rest = worker.reply;
    worker.rest.append(sum_.data(), worker.reply_room);
    worker.rest.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    return false;
  }

  const int epoll_;
  const std::size_t seq_at_;
  nb::object value_;
  int type_;
  char* to_;
  std::size_t bytes_;
  int64_t size_;
  std::vector<char> sum_;
  std::vector<Worker> workers_;     // in the order of ranks
  std::vector<std::size_t> order_;  // whose messages are held, as they came
  Clock::time_point began_, came_;  // when the first and the last of them came
  uint64_t rounds_ = 0;
  double summing_ = 0;
};

}  // namespace

void enter_rounds(PyObject* module) {
  nb::module_ m = nb::borrow<nb::module_>(module);
  nb::class_<Rounds>(m, "KvRounds", "Rounds that repeat, of one shard (rounds.py).")
      .def(nb::init<int, std::size_t, nb::handle>(), nb::arg("epoll"), nb::arg("seq_at"),
           nb::arg("value"))
      .def("add", &Rounds::add, nb::arg("descriptor"), nb::arg("request"), nb::arg("room"),
           nb::arg("reply"), nb::arg("reply_room"), nb::arg("latest"))
      .def("turn", &Rounds::turn, nb::arg("seconds"))
      .def("held", &Rounds::held)
      .def("unsent", &Rounds::unsent)
      .def("progress", &Rounds::progress);
}

}  // namespace mg

#endif
