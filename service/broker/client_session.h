// ClientSession: what the gateway keeps of one session: who it is, its lifeline, the requests
// that are being worked on, descriptors that came ahead of theirs, and the last answer, for a
// client that asks again because the answer was lost. Bookkeeping only: sends and holds nothing.
// Bounded by base/limits.h. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "service/broker/quotas.h"
#include "service/broker/request_sink.h"
#include "service/transport/channel.h"
#include "service/wire/client_messages.h"

namespace laneway::service {

class ClientSession {
 public:
  // What a request that arrives is.
  enum class Arrival {
    fresh,     // to be worked on
    repeated,  // worked on already; its answer goes where it came from this time
    answered,  // its kept answer is to be sent again
    stale,     // one that its client no longer waits for
    too_many,  // limits::kMaxRequestsInWork are being worked on
  };
  // A request whose descriptors have not come yet.
  struct Waiting {
    uint64_t number = 0;
    wire::AnyRequest message;
    TimePoint until;
  };

  // Without a lifeline by `until`, the session is dropped.
  ClientSession(Session who, TimePoint until) : who_(std::move(who)), until_(until) {}

  const Session& who() const { return who_; }
  bool open() const { return lifeline_.valid(); }
  Channel& lifeline() { return lifeline_; }
  // Given back when the session ends.
  void add_share(Quotas::Share share) { shares_.push_back(std::move(share)); }
  void open_with(Channel lifeline) { lifeline_ = std::move(lifeline); }
  TimePoint until() const { return open() ? TimePoint::never() : until_; }

  // The Hello that made it, so that the same Hello again gets the same Welcome.
  bool is_hello(const std::string& route, uint64_t number) const {
    return hello_route_ == route && hello_number_ == number;
  }
  void set_hello(std::string route, uint64_t number) {
    hello_route_ = std::move(route);
    hello_number_ = number;
  }

  // Notes where the answer goes. What belongs to requests before it is forgotten; their descriptor
  // messages' numbers are added to `released`.
  Arrival arrive(uint64_t number, const std::string& route, std::vector<uint64_t>& released);
  // Where the answer to a request that is being worked on goes; nothing for others.
  std::optional<std::string> finish(uint64_t number);
  // The answer `bytes` is kept when it may be sent again as it is (it has no descriptors).
  void keep_answer(uint64_t number, std::vector<std::byte> bytes);
  const std::vector<std::byte>& kept_answer() const { return kept_; }

  // False: not wanted (a repeated one, one of a request before, or limits::kMaxDescriptorMessages
  // wait).
  bool wants_descriptor_message(uint64_t number) const;
  void add_descriptor_message(uint64_t number, std::vector<Descriptor> fds, Quotas::Share share) {
    descriptor_messages_[number] = {.fds = std::move(fds), .share = std::move(share), .why = {}};
  }
  // It came, and could not be kept: its request is refused with this.
  void refuse_descriptor_message(uint64_t number, Error why) {
    descriptor_messages_[number] = {.fds = {}, .share = {}, .why = std::move(why)};
  }
  std::optional<Error> descriptor_refusal(uint64_t number) const;
  bool has_descriptor_message(uint64_t number) const {
    return descriptor_messages_.contains(number);
  }
  // Its descriptors; it stays known (and held) until it is dropped.
  std::vector<Descriptor> take_descriptor_message(uint64_t number);
  // False: there was none.
  bool drop_descriptor_message(uint64_t number) { return descriptor_messages_.erase(number) > 0; }
  std::vector<uint64_t> messages() const;

  // Descriptors of answers that the client may not have taken from its lifeline yet. The first
  // ones have no share of their own: the session's has room for them.
  bool has_unread() const { return !unread_.empty(); }
  void add_unread(Quotas::Share share) { unread_.push_back(std::move(share)); }
  void all_read() { unread_.clear(); }

  std::optional<Waiting>& waiting() { return waiting_; }
  const std::optional<Waiting>& waiting() const { return waiting_; }

 private:
  Session who_;
  TimePoint until_;
  Channel lifeline_;
  std::vector<Quotas::Share> shares_;
  std::string hello_route_;
  uint64_t hello_number_ = 0;
  uint64_t highest_ = 0;                     // number that arrived
  std::map<uint64_t, std::string> in_work_;  // number to route
  uint64_t kept_number_ = 0;                 // 0: none is kept
  std::vector<std::byte> kept_;
  struct DescriptorMessage {
    std::vector<Descriptor> fds;
    Quotas::Share share;       // of descriptors
    std::optional<Error> why;  // it was refused
  };
  std::map<uint64_t, DescriptorMessage> descriptor_messages_;
  std::vector<Quotas::Share> unread_;
  std::optional<Waiting> waiting_;
};

}  // namespace laneway::service
