// Replies: the way back to clients for everything that answers requests. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "service/transport/descriptor.h"
#include "service/wire/client_replies.h"

namespace laneway::service {

// A request that waits for its answer.
struct ReplyTo {
  SessionId session;
  uint64_t number = 0;  // 0: nobody waits
  explicit operator bool() const { return number != 0; }
  friend bool operator==(const ReplyTo&, const ReplyTo&) = default;
};

// Who asks, and where the answer goes.
struct Requester {
  ReplyTo to;
  uint32_t user = 0;  // uid
};

class Replies {
 public:
  using Way = std::function<void(const ReplyTo&, const wire::AnyReply&, std::vector<Descriptor>)>;

  // Nothing is sent before this.
  void set_way(Way way) { way_ = std::move(way); }

  // Nothing happens when nobody waits.
  void send(const ReplyTo& to, const wire::AnyReply& reply, std::vector<Descriptor> fds = {});
  void fail(const ReplyTo& to, const Error& error);
  // The same, and nobody waits afterwards.
  void answer(ReplyTo& to, const wire::AnyReply& reply, std::vector<Descriptor> fds = {});
  void refuse(ReplyTo& to, const Error& error);

 private:
  Way way_;
};

// Sentences may contain what clients named: cut to what a message has room for.
std::string short_enough(std::string text);

}  // namespace laneway::service
