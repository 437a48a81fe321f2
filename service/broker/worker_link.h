// WorkerLink: the broker's channel to the active worker, while there is one. What is sent without a
// worker is lost, which is right: the next one gets everything that is held. Not thread-safe.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/broker/link_files.h"
#include "service/transport/channel.h"
#include "service/wire/codec.h"
#include "service/wire/worker_messages.h"

namespace laneway::service {

class WorkerLink {
 public:
  void connect(Channel channel) { channel_ = std::move(channel); }
  void hang_up() { channel_ = Channel(); }
  bool up() const { return channel_.valid(); }

  // Of an answer that is waited for: 1, 2, …
  uint64_t next_request() { return ++last_request_; }

  // With copies of these descriptors. What the worker does not take makes the link go down: the
  // supervisor finds the worker dead, or this broker's successor begins anew.
  template <class M>
  void send(const M& message, const std::vector<const Descriptor*>& fds = {}) {
    if (up()) send_bytes(wire::encode(message), fds);
  }

  // The next message; nothing when there is none (any more).
  std::optional<wire::from_worker::Any> receive();

  // Nothing without a worker.
  std::optional<pollfd> poll_entry() const;
  void flush();

 private:
  void send_bytes(const std::vector<std::byte>& bytes, const std::vector<const Descriptor*>& fds);
  void lose(const std::string& why);

  Channel channel_;
  uint64_t last_request_ = 0;
};

}  // namespace laneway::service
