#include "service/broker/worker_link.h"

#include <utility>

#include "base/log.h"

namespace laneway::service {

void WorkerLink::send_bytes(const std::vector<std::byte>& bytes,
                            const std::vector<const Descriptor*>& fds) {
  auto copied = copies(fds);
  if (!copied) return lose(copied.error().message);
  if (Status sent = channel_.send(bytes, std::move(copied).value()); !sent) {
    lose(sent.error().message);
  }
}

std::optional<wire::from_worker::Any> WorkerLink::receive() {
  if (!up()) return std::nullopt;
  auto frame = channel_.receive();
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
  const int events = POLLIN | (channel_.wants_write() ? POLLOUT : 0);
  return pollfd{channel_.descriptor(), static_cast<short>(events), 0};
}

void WorkerLink::flush() {
  if (!up() || !channel_.wants_write()) return;
  if (Status sent = channel_.flush(); !sent) lose(sent.error().message);
}

void WorkerLink::lose(const std::string& why) {
  log_warning("the worker is not reached any more: " + why);
  hang_up();
}

}  // namespace laneway::service
