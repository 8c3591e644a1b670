// A worker's end of messages that repeat: sent from where the numbers lie, and answers put where
// they belong by whoever waits for them. So a small round changes no thread and runs no Python but
// the call itself. The bytes come from Python (kvstore/dist/forms.py); of the protocol only the
// place of a request's number is known here. What looks otherwise is left in the socket.
#include "lanes.h"

#ifdef __linux__

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <unordered_map>

#include "../away.h"
#include "../engine/python.h"
#include "../numpy.h"

namespace nb = nanobind;

namespace mg {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(100);  // then signals get their turn

std::vector<std::pair<char*, std::size_t>> places_of(nb::list arrays, bool written) {
  std::vector<std::pair<char*, std::size_t>> found;
  for (nb::handle each : arrays) {
    if (!PyArray_Check(each.ptr()) || !is_dense(as_array(each.ptr())) ||
        (written && !PyArray_ISWRITEABLE(as_array(each.ptr())))) {
      throw nb::type_error("lanes: expected dense arrays");
    }
    PyArrayObject* array = as_array(each.ptr());
    found.emplace_back(static_cast<char*>(PyArray_DATA(array)), PyArray_NBYTES(array));
  }
  return found;
}

std::size_t bytes_of(const std::vector<std::pair<char*, std::size_t>>& places) {
  std::size_t sum = 0;
  for (const auto& place : places) sum += place.second;
  return sum;
}

class Lanes : public Bringer, public std::enable_shared_from_this<Lanes> {
 public:
  Lanes(int epoll, std::size_t seq_at) : epoll_(epoll), seq_at_(seq_at), buffer_(kMostBytes) {
    nudge_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (nudge_ < 0) throw std::runtime_error("lanes: no eventfd");
  }
  Lanes(const Lanes&) = delete;
  ~Lanes() override {
    for (auto& each : open_) bury(each.second.kept);
    for (auto& each : finished_) bury(each.second);
    ::close(nudge_);
  }

  void add(int descriptor) {
    Reading reading(*this);
    ends_.push_back({descriptor, true, false});
    set_bringer(shared_from_this());
  }

  void remove(int descriptor) {
    Reading reading(*this);
    ends_.erase(std::remove_if(ends_.begin(), ends_.end(),
                               [&](const End& end) { return end.descriptor == descriptor; }),
                ends_.end());
  }

  // For whoever reads with Python's means: nobody else does meanwhile. False: somebody does.
  bool hold() { return held_ = reading_.try_lock(); }
  void let_go() {
    held_ = false;
    reading_.unlock();
  }
  // Whether the next byte of a connection begins a message (while held).
  void clean(int descriptor, bool is) {
    if (End* end = find(descriptor)) end->clean = is;
  }

  // Whether something is left to be sent over a connection: then the network thread, which says
  // so, is woken when there is room, whoever reads. False: the connection is not one of these.
  bool watch(int descriptor, bool writing) {
    End* end = find(descriptor);
    if (end == nullptr) return false;
    std::lock_guard<std::mutex> hold(state_);
    end->writing = writing;
    watch(*end);
    return true;
  }

  // Send a request whose answer, once it is there, is put into `targets`; then `ticket` is done.
  // What could not be sent at once, or None.
  nb::object call(int descriptor, uint64_t seq, nb::bytes request, std::size_t room,
                  nb::list pieces, nb::bytes reply, std::size_t reply_room, nb::list targets,
                  nb::handle ticket) {
    const auto from = places_of(pieces, false);
    Open open;
    open.reply = {std::string(reply.c_str(), reply.size()), reply_room};
    open.targets = places_of(targets, true);
    open.item = item_of(ticket.ptr());
    const std::size_t size = request.size() + room;
    if (bytes_of(from) > room || bytes_of(open.targets) > reply_room || size > kMostBytes ||
        open.reply.size() > kMostBytes || request.size() < seq_at_ + sizeof seq) {
      throw nb::value_error("lanes: arrays that are longer than their message");
    }
    char message[kMostBytes];
    std::memcpy(message, request.c_str(), request.size());
    put_number(message, seq_at_, seq);
    char* at = message + request.size();
    for (const auto& [data, bytes] : from) at = std::copy_n(data, bytes, at);
    std::fill(at, message + size, 0);
    open.kept = targets.inc_ref().ptr();
    {
      std::lock_guard<std::mutex> hold(state_);
      open_.insert_or_assign(seq, std::move(open));
      waiting_ = open_.size();
    }
    ssize_t sent = ::send(descriptor, message, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) sent = errno == EAGAIN || errno == EINTR ? 0 : size;  // an end is seen by readers
    if (static_cast<std::size_t>(sent) == size) return nb::none();
    return nb::bytes(message + sent, size - static_cast<std::size_t>(sent));
  }

  // The numbers of requests that have been answered here since the last time.
  nb::list finished() {
    std::vector<std::pair<uint64_t, PyObject*>> found;
    {
      std::lock_guard<std::mutex> hold(state_);
      found.swap(finished_);
    }
    nb::list made;
    for (const auto& [seq, kept] : found) {
      made.append(seq);
      Py_DECREF(kept);
    }
    return made;
  }

  // Python has the answer, or there will be none.
  void forget(uint64_t seq) {
    PyObject* kept = nullptr;
    {
      std::lock_guard<std::mutex> hold(state_);
      const auto at = open_.find(seq);
      if (at == open_.end()) return;
      kept = at->second.kept;
      open_.erase(at);
      waiting_ = open_.size();
    }
    Py_DECREF(kept);
  }

  // Take the answers that have come (while held); whether there is something else to be read.
  bool take(int descriptor) {
    if (waiting_ == 0) return true;  // nothing that comes is for here: the GIL stays where it is
    Away away;
    End* end = find(descriptor);
    return end == nullptr || !end->clean || take(*end);
  }

  void bring(const std::function<bool()>& done) override {
    if (waiting_ == 0 || getpid() != pid_ || !reading_.try_lock()) return;
    std::lock_guard<std::mutex> reading(reading_, std::adopt_lock);
    if (std::all_of(ends_.begin(), ends_.end(), [](const End& end) { return end.clean; })) {
      read_here(true);
      engine().tell(nudge_);
      bring_all(done);
      engine().tell(-1);
      read_here(false);
    }
  }

 private:
  struct End {
    int descriptor;
    bool clean, writing;
  };
  struct Open {
    Form reply;
    std::vector<std::pair<char*, std::size_t>> targets;
    ItemPtr item;
    PyObject* kept = nullptr;
  };

  // The right to read for the time of a change; whoever has it is asked to give it up.
  class Reading {
   public:
    explicit Reading(Lanes& lanes) : lanes_(lanes), own_(!lanes.held_) {
      if (!own_) return;
      ++lanes.asked_;
      const uint64_t one = 1;
      if (::write(lanes.nudge_, &one, sizeof one) < 0 && errno != EAGAIN) {
        throw std::runtime_error("lanes: eventfd");
      }
      Away away;
      lanes.reading_.lock();
      --lanes.asked_;
    }
    ~Reading() {
      if (own_) lanes_.reading_.unlock();
    }

   private:
    Lanes& lanes_;
    const bool own_;
  };

  End* find(int descriptor) {
    for (End& end : ends_) {
      if (end.descriptor == descriptor) return &end;
    }
    return nullptr;
  }

  // Whether a thread that waits reads what comes: then the network thread is not woken by it.
  void read_here(bool is) {
    std::lock_guard<std::mutex> hold(state_);
    here_ = is;
    for (const End& end : ends_) watch(end);
  }

  void watch(const End& end) {
    epoll_event event{};
    if (!here_) event.events |= EPOLLIN;
    if (end.writing) event.events |= EPOLLOUT;
    event.data.fd = end.descriptor;
    epoll_ctl(epoll_, EPOLL_CTL_MOD, end.descriptor, &event);
  }

  void bring_all(const std::function<bool()>& done) {
    std::vector<pollfd> polled;
    for (const End& end : ends_) polled.push_back({end.descriptor, POLLIN, 0});
    polled.push_back({nudge_, POLLIN, 0});
    const auto until = Engine::Clock::now() + kPatience;
    while (!done() && waiting_ != 0 && asked_ == 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - Engine::Clock::now());
      if (left.count() <= 0 || ::poll(polled.data(), polled.size(), left.count()) <= 0) return;
      if (polled.back().revents != 0) {
        uint64_t count;
        if (::read(nudge_, &count, sizeof count) < 0 && errno != EAGAIN) return;
      }
      for (std::size_t i = 0; i < ends_.size(); ++i) {
        if (polled[i].revents != 0 && take(ends_[i])) return;
      }
    }
  }

  bool take(End& end) {
    for (;;) {
      const ssize_t got = ::recv(end.descriptor, buffer_.data(), kMostBytes,
                                 MSG_PEEK | MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
      const auto bytes = static_cast<std::size_t>(got);
      if (got < static_cast<ssize_t>(seq_at_ + sizeof(uint64_t))) return true;
      const uint64_t seq = number_in(buffer_.data(), seq_at_);
      Open open;
      {
        std::lock_guard<std::mutex> hold(state_);
        const auto at = open_.find(seq);
        if (at == open_.end() || !at->second.reply.fits(buffer_.data(), bytes, seq_at_)) {
          return true;
        }
        open = std::move(at->second);
        open_.erase(at);
        waiting_ = open_.size();
      }
      const std::size_t size = open.reply.size();
      if (::recv(end.descriptor, buffer_.data(), size, MSG_DONTWAIT) !=
          static_cast<ssize_t>(size)) {
        return true;  // cannot be: it has been seen
      }
      const char* from = buffer_.data() + open.reply.head.size();
      for (const auto& [data, count] : open.targets) {
        std::memcpy(data, from, count);
        from += count;
      }
      {
        std::lock_guard<std::mutex> hold(state_);  // not before: arrays may go then
        finished_.emplace_back(seq, open.kept);
      }
      engine().end(open.item, nullptr);
      if (bytes == size) return false;
    }
  }

  const int epoll_;
  const std::size_t seq_at_;
  const pid_t pid_ = getpid();
  int nudge_;
  std::vector<char> buffer_;
  std::vector<End> ends_;          // changed by who may read
  std::mutex reading_, state_;
  bool held_ = false;              // of the network thread alone
  bool here_ = false;              // as read_here says
  std::atomic<int> asked_{0};
  std::atomic<std::size_t> waiting_{0};
  std::unordered_map<uint64_t, Open> open_;
  std::vector<std::pair<uint64_t, PyObject*>> finished_;
};

}  // namespace

void enter_lanes(PyObject* module) {
  nb::module_ m = nb::borrow<nb::module_>(module);
  nb::class_<Lanes>(m, "KvLanes", "Requests that repeat, and their answers (forms.py).")
      .def("add", &Lanes::add, nb::arg("descriptor"))
      .def("remove", &Lanes::remove, nb::arg("descriptor"))
      .def("hold", &Lanes::hold)
      .def("let_go", &Lanes::let_go)
      .def("clean", &Lanes::clean, nb::arg("descriptor"), nb::arg("is_clean"))
      .def("call", &Lanes::call, nb::arg("descriptor"), nb::arg("seq"), nb::arg("request"),
           nb::arg("room"), nb::arg("pieces"), nb::arg("reply"), nb::arg("reply_room"),
           nb::arg("targets"), nb::arg("ticket"))
      .def("watch", nb::overload_cast<int, bool>(&Lanes::watch), nb::arg("descriptor"),
           nb::arg("writing"))
      .def("finished", &Lanes::finished)
      .def("forget", &Lanes::forget, nb::arg("seq"))
      .def("take", nb::overload_cast<int>(&Lanes::take), nb::arg("descriptor"));
  m.def("kv_lanes", [](int epoll, std::size_t seq_at) {
    return std::make_shared<Lanes>(epoll, seq_at);
  }, nb::arg("epoll"), nb::arg("seq_at"));
  enter_rounds(module);
}

}  // namespace mg

#else

namespace mg {

void enter_lanes(PyObject*) {}

}  // namespace mg

#endif
