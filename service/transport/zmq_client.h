// ZmqClient: a client's side of its messages: a ZeroMQ DEALER that connects to a service's address,
// and again whenever the broker there was replaced. It cannot tell whether anybody is there, and
// what was under way to a broker that died is lost: whoever uses it repeats its request. Replies
// may therefore come twice. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "service/transport/address.h"

namespace laneway::service {

class ZmqClient {
 public:
  // Returns at once, whether somebody listens there or not.
  static Result<ZmqClient> open(const Address& address);
  ZmqClient(ZmqClient&&) noexcept;
  ZmqClient& operator=(ZmqClient&&) noexcept;
  // What is not yet sent is dropped.
  ~ZmqClient();

  // Queues the message. refused: limits::kMaxQueuedRequests wait already, because nobody is there;
  // invalid_argument: more than limits::kMaxRequestBytes.
  Status send(std::span<const std::byte> bytes);
  // The next message. timed_out after `timeout`.
  Result<std::vector<std::byte>> receive(Duration timeout);

 private:
  struct Inside;
  explicit ZmqClient(std::unique_ptr<Inside> inside);

  std::unique_ptr<Inside> inside_;
};

}  // namespace laneway::service
