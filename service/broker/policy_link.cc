#include "service/broker/policy_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "plugin/plugin_process.h"
#include "service/broker/limits.h"

namespace laneway::service {
namespace {

// At a time: a program that writes without end keeps nobody waiting.
constexpr int kMaxReadsARound = 128;
constexpr size_t kReadBytes = size_t{8} << 10;

constexpr bool is_later(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

const PolicyLink::Patience PolicyLink::kPatience = {.start = limits::kPolicyStartPatience,
                                                    .answer = plugin::kPatience};

PolicyLink::PolicyLink(Descriptor socket, const std::string& options, TimePoint now,
                       const Patience& patience)
    : patience_(patience),
      socket_(std::move(socket)),
      conversation_(options, /*seed=*/0),
      asked_since_(now) {}

std::vector<lanes::Event> PolicyLink::hear(TimePoint now) {
  std::vector<lanes::Event> events;
  if (!fault_) read();
  if (fault_) return events;
  is_asked_ = conversation_.is_asked();
  if (has_begun() && !std::exchange(announced_, true)) {
    events.emplace_back(lanes::AdviserChanged{lanes::AdviserNews::came});
  }
  for (lanes::Event& advice : conversation_.take_advice()) events.push_back(std::move(advice));
  if (announced_ && conversation_.wakes_at() <= now) {
    conversation_.forget_wake();
    events.emplace_back(lanes::AdviserChanged{lanes::AdviserNews::asks});
  }
  return events;
}

void PolicyLink::say(TimePoint now) {
  if (fault_) return;
  if (conversation_.send(now)) {
    asked_since_ = now;
    is_asked_ = true;
  }
  if (!conversation_.to_send().empty()) write();
  wants_write_ = !conversation_.to_send().empty();
  look_whether_late(now);
}

void PolicyLink::read() {
  std::array<std::byte, kReadBytes> buffer{};
  for (int round = 0; round < kMaxReadsARound; ++round) {
    const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && is_later(errno)) return;
    if (count <= 0) return hang_up();
    const std::span heard(buffer.data(), static_cast<size_t>(count));
    if (const Status sense = conversation_.heard(heard); !sense) {
      fault_ = Fault{.why = sense.error().message, .hung_up = false};
      return;
    }
    if (heard.size() < buffer.size()) return;
  }
}

void PolicyLink::write() {
  std::vector<std::byte>& bytes = conversation_.to_send();
  const ssize_t count =
      ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count > 0) bytes.erase(bytes.begin(), bytes.begin() + count);
  if (count < 0 && !is_later(errno)) hang_up();
}

void PolicyLink::look_whether_late(TimePoint now) {
  if (fault_ || !is_asked_) return;
  const Duration late = now - (asked_since_ + patience());
  if (late < Duration()) return;
  // Whoever looks much later than it wanted to was stopped itself, and the program perhaps too.
  if (late > limits::kPolicyBlame) {
    asked_since_ = now;
    return;
  }
  std::array<char, 96> why{};
  std::snprintf(why.data(), why.size(), "it did not %s within %.1f s",
                has_begun() ? "answer" : "say hello", patience().seconds());
  fault_ = Fault{.why = why.data(), .hung_up = false};
}

std::optional<pollfd> PolicyLink::poll_entry() const {
  if (fault_) return std::nullopt;
  const int events = POLLIN | (wants_write_ ? POLLOUT : 0);
  return pollfd{socket_.get(), static_cast<short>(events), 0};
}

TimePoint PolicyLink::next_wakeup() const {
  if (fault_) return TimePoint::never();
  const TimePoint wake = announced_ ? conversation_.wakes_at() : TimePoint::never();
  return is_asked_ ? std::min(wake, asked_since_ + patience()) : wake;
}

}  // namespace laneway::service
