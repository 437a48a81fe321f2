#include "service/worker/common/event_poll.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"

namespace laneway::service {
namespace {

Error failure(const char* what) {
  return Error{ErrorCode::failed, std::string(what) + " failed: " + std::strerror(errno) +
                                      "; raise the limit of open files (ulimit -n)"};
}

}  // namespace

Result<std::unique_ptr<EventPoll>> EventPoll::make() {
  Descriptor poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll.valid()) return failure("epoll_create1");
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return failure("eventfd");
  auto made = std::unique_ptr<EventPoll>(new EventPoll(std::move(poll), std::move(wake)));
  if (Status added = made->add(made->wake_.get(), 0); !added) return added.error();
  return made;
}

Status EventPoll::add(int descriptor, uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = key;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return {};
  return failure("epoll_ctl");
}

void EventPoll::remove(int descriptor) {
  ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void EventPoll::wake() {
  const uint64_t one = 1;
  const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  LW_CHECK(written == sizeof(one), "a wake-up is counted");
}

std::vector<uint64_t> EventPoll::wait() { return take(-1); }

std::vector<uint64_t> EventPoll::wait_for(Duration most) {
  constexpr int64_t kNsPerS = 1'000'000'000;
  const timespec time{.tv_sec = most.ns() / kNsPerS, .tv_nsec = most.ns() % kNsPerS};
  pollfd entry{poll_.get(), POLLIN, 0};
  // epoll_wait itself counts in milliseconds.
  if (::ppoll(&entry, 1, &time, nullptr) <= 0) return {};
  return take(0);
}

std::vector<uint64_t> EventPoll::take(int timeout_ms) {
  std::array<epoll_event, 16> events;
  const int count =
      ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  std::vector<uint64_t> keys;
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[static_cast<size_t>(i)].data.u64;  // packed: no reference may bind
    if (key != 0) keys.push_back(key);
  }
  return keys;
}

}  // namespace laneway::service
