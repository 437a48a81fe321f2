#include "service/broker/worker_link.h"

#include <utility>

#include "base/log.h"

namespace laneway::service {

void WorkerLink::note(const Status& sent) {
  if (!sent) return lose(sent.error().message);
  const auto& why = out_.held_up();
  if (why && !is_held_up_) log_warning("the worker is told later: " + why->message);
  is_held_up_ = why.has_value();
}

std::optional<wire::from_worker::Any> WorkerLink::receive() {
  if (!up()) return std::nullopt;
  auto frame = out_.channel().receive();
  if (!frame) {
    lose(frame.error().message);
    return std::nullopt;
  }
  if (!frame.value()) return std::nullopt;
  auto message = wire::decode<wire::from_worker::Any>(frame.value()->bytes);
  if (!message) {
    lose("it sent what is no message: " + message.error().message);
    return std::nullopt;
  }
  return std::move(message).value();
}

std::optional<pollfd> WorkerLink::poll_entry() const {
  if (!up()) return std::nullopt;
  const Channel& channel = out_.channel();
  const int events = POLLIN | (channel.wants_write() ? POLLOUT : 0);
  return pollfd{channel.descriptor(), static_cast<short>(events), 0};
}

void WorkerLink::flush() {
  if (up()) note(out_.flush());
}

void WorkerLink::lose(const std::string& why) {
  log_warning("the worker is not reached any more: " + why);
  hang_up();
}

}  // namespace laneway::service
