// WorkerLink: the broker's channel to the active worker, while there is one. What is sent without a
// worker is lost, which is right: the next one gets everything that is held. Not thread-safe.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "service/broker/outbox.h"
#include "service/transport/channel.h"
#include "service/wire/codec.h"
#include "service/wire/worker_messages.h"

namespace laneway::service {

class WorkerLink {
 public:
  void connect(Channel channel) { out_.open(std::move(channel)); }
  void hang_up() { out_.close(); }
  bool up() const { return out_.is_open(); }

  // Of an answer that is waited for: 1, 2, …
  uint64_t next_request() { return ++last_request_; }

  // In the order of the calls. A channel that breaks makes the link go down: the supervisor finds
  // the worker dead, or this broker's successor begins anew.
  template <class M>
  void send(const M& message) {
    if (up()) note(out_.send(wire::encode(message)));
  }
  // The same, made when everything before it was taken (outbox.h).
  void send_later(Outbox::Make make) {
    if (up()) note(out_.send_later(std::move(make)));
  }

  // The next message; nothing when there is none (any more).
  std::optional<wire::from_worker::Any> receive();

  // Nothing without a worker.
  std::optional<pollfd> poll_entry() const;
  void flush();

 private:
  // What became of something that was sent.
  void note(const Status& sent);
  void lose(const std::string& why);

  Outbox out_;
  bool is_held_up_ = false;  // and the log has it
  uint64_t last_request_ = 0;
};

}  // namespace laneway::service
