// Connection: a session with a service. Requests go over ZeroMQ, one at a time, each under a number
// of its own; what brings no answer is sent again under the same number, because a broker may have
// died with it, and the service does nothing twice. Descriptors of requests and replies travel over
// the lifeline, the Unix socket whose end shows each side that the other is gone.
// Thread-safe: threads take turns in the order in which they came.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "service/client/limits.h"
#include "service/transport/address.h"
#include "service/transport/channel.h"
#include "service/transport/descriptor.h"
#include "service/transport/zmq_client.h"
#include "service/wire/client_messages.h"
#include "service/wire/client_replies.h"

namespace laneway::service {

// A reply that is no Failure, with the descriptors that belong to it.
struct Reply {
  wire::AnyReply message;
  std::vector<Descriptor> fds;
};

class Connection {
 public:
  struct Options {
    std::string address;          // empty: Address::standard()
    std::string program;          // for logs and status
    Duration timeout;             // how long to look for a service; zero: it must be there
    std::string torch_version{};  // of this process; empty: not known
    Duration answer{};  // for how long a request waits for its answer; zero: kLongestRequest
  };

  // unavailable, with what to do, when there is none.
  static Result<std::unique_ptr<Connection>> open(const Options& options, const Clock& clock);
  ~Connection();

  // The reply; `fds` stay the caller's. The service's Failure, or unavailable: the service has
  // ended, or close() came, timed_out: no answer within Options::answer.
  Result<Reply> request(const wire::AnyRequest& message, const std::vector<int>& fds = {})
      LW_EXCLUDES(mutex_);
  // The same for a request whose reply is known.
  template <class Wanted>
  Result<std::pair<Wanted, std::vector<Descriptor>>> request_for(const wire::AnyRequest& message,
                                                                 const std::vector<int>& fds = {}) {
    Result<Reply> reply = request(message, fds);
    if (!reply) return reply.error();
    auto* wanted = std::get_if<Wanted>(&reply.value().message);
    if (wanted == nullptr) return unexpected_reply(Wanted::kType.name);
    return std::pair(std::move(*wanted), std::move(reply.value().fds));
  }

  const wire::Welcome& welcome() const { return welcome_; }
  const std::string& torch_version() const { return torch_version_; }
  // Says goodbye, which ends the session's jobs, and hangs up. Waits `patience` for the answer, and
  // not longer than for any; but moments when the last request had none. Idempotent.
  void close(Duration patience) LW_EXCLUDES(mutex_);
  bool closed() const { return closed_; }
  Error closed_error() const;

 private:
  Connection(Address address, ZmqClient socket, const Options& options, const Clock& clock)
      : address_(std::move(address)),
        torch_version_(options.torch_version),
        answer_(options.answer > Duration() ? std::min(options.answer, limits::kLongestRequest)
                                            : limits::kLongestRequest),
        clock_(clock),
        socket_(std::move(socket)) {}

  // One request as it travels.
  struct Outgoing {
    uint64_t number = 0;
    std::vector<std::byte> bytes;
    const std::vector<int>& fds;
    TimePoint until;
  };

  Status greet(Descriptor lifeline, const std::string& program) LW_EXCLUDES(mutex_);
  Status set_lifeline(Descriptor socket) LW_REQUIRES(mutex_);
  Status open_lifeline(TimePoint until) LW_REQUIRES(mutex_);
  Result<Reply> exchange(const wire::AnyRequest& message, const std::vector<int>& fds,
                         TimePoint until) LW_REQUIRES(mutex_);
  Status send(const Outgoing& outgoing) LW_REQUIRES(mutex_);
  // The reply if it comes before `until`.
  Result<std::optional<wire::AnyReply>> receive(uint64_t number, TimePoint until)
      LW_REQUIRES(mutex_);
  // Takes what the lifeline has; an error when the service is gone, or hung up on us.
  Status read_lifeline(uint64_t number) LW_REQUIRES(mutex_);
  Error gone() const;
  static Error unexpected_reply(const char* wanted);
  void take_turn() LW_EXCLUDES(mutex_);
  void end_turn() LW_EXCLUDES(mutex_);

  const Address address_;
  const std::string torch_version_;
  const Duration answer_;
  const Clock& clock_;
  wire::Welcome welcome_;
  std::atomic<bool> closed_{false};

  Mutex turn_mutex_;
  CondVar turn_changed_;
  uint64_t next_turn_ LW_GUARDED_BY(turn_mutex_) = 0;
  uint64_t serving_ LW_GUARDED_BY(turn_mutex_) = 0;

  Mutex mutex_;
  ZmqClient socket_ LW_GUARDED_BY(mutex_);
  Channel lifeline_ LW_GUARDED_BY(mutex_);
  uint64_t last_request_ LW_GUARDED_BY(mutex_) = 0;
  bool leaving_ LW_GUARDED_BY(mutex_) = false;  // close() speaks
  bool silent_ LW_GUARDED_BY(mutex_) = false;   // the last request had no answer
  std::optional<Error> lost_ LW_GUARDED_BY(mutex_);
  // The descriptors that came for the request under way; nothing when none came yet.
  std::optional<std::vector<Descriptor>> descriptor_message_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service
