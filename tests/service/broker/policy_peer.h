// PolicyPeer: the program's side of the conversation with a policy from outside, over the socket
// whose other end the service has: it says whatever a test wants, nonsense too.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "service/transport/descriptor.h"
#include "tests/plugin/said.h"

namespace laneway::testing {

class PolicyPeer {
 public:
  // The peer, and the service's end of its socket.
  static std::pair<PolicyPeer, service::Descriptor> pair() {
    int ends[2];
    LW_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    return {PolicyPeer(service::Descriptor(ends[0])), service::Descriptor(ends[1])};
  }

  // Frames as tests/plugin/said.h makes them, or anything else.
  void say(std::span<const std::byte> bytes) const {
    LW_CHECK(try_to_say(bytes), "the service's end takes it");
  }
  // False: the socket is full.
  bool try_to_say(std::span<const std::byte> bytes) const {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  void hang_up() { socket_.reset(); }

  // What came since the last call: the types of frames, in order.
  std::vector<plugin::FrameType> heard() {
    char buffer[1 << 16];
    ssize_t got = 0;
    while ((got = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
      bytes_.append(buffer, static_cast<size_t>(got));
    }
    std::vector<plugin::FrameType> types;
    uint32_t length = 0;
    while (bytes_.size() >= sizeof length) {
      std::memcpy(&length, bytes_.data(), sizeof length);
      if (bytes_.size() < sizeof length + length) break;
      types.push_back(static_cast<plugin::FrameType>(bytes_[sizeof length]));
      if (types.back() == plugin::FrameType::hello) was_greeted_ = true;
      if (types.back() == plugin::FrameType::job) ++jobs_;
      if (types.back() == plugin::FrameType::instant) {
        // Behind its time.
        const size_t at = sizeof length + 1 + sizeof(int64_t);
        std::memcpy(&instant_, bytes_.data() + at, sizeof instant_);
      }
      bytes_.erase(0, sizeof length + length);
    }
    return types;
  }
  // Of what was heard so far.
  bool was_greeted() const { return was_greeted_; }
  int jobs() const { return jobs_; }             // frames of them
  uint64_t instant() const { return instant_; }  // the number of the last batch

  // Hears what came, and has nothing to say to it.
  void answer() {
    for (const plugin::FrameType type : heard()) {
      if (type == plugin::FrameType::instant) say(plugin::done(instant_));
    }
  }

 private:
  explicit PolicyPeer(service::Descriptor socket) : socket_(std::move(socket)) {}

  service::Descriptor socket_;
  std::string bytes_;
  bool was_greeted_ = false;
  int jobs_ = 0;
  uint64_t instant_ = 0;
};

}  // namespace laneway::testing
