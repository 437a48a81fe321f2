#include "service/broker/supervisor_link.h"

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/log.h"

namespace laneway::service {

namespace to_broker = wire::supervisor_to_broker;
namespace from_broker = wire::broker_to_supervisor;

namespace {

std::vector<uint8_t> plain(const std::vector<std::byte>& note) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(note.data());
  return {bytes, bytes + note.size()};
}

}  // namespace

void SupervisorLink::send(const std::vector<std::byte>& bytes, std::vector<Descriptor> fds) {
  if (lost_) return;
  Status status = channel_.send(bytes, std::move(fds));
  // A supervisor that listens always reads, and only what is in its socket outlives this process.
  while (is_fed_ && status && channel_.wants_write()) {
    pollfd entry{channel_.descriptor(), POLLOUT, 0};
    if (::poll(&entry, 1, -1) < 0 && errno != EINTR) break;
    status = channel_.flush();
    // There is room, and it was not taken: too many descriptors of this user are in flight.
    if (status && channel_.wants_write()) ::poll(nullptr, 0, 1);
  }
  if (!status) {
    log_error("the supervisor takes nothing from this broker: " + status.error().message);
    lost_ = true;
  }
}

uint64_t SupervisorLink::hold(std::string key, std::vector<std::byte> note,
                              std::vector<Descriptor> fds) {
  from_broker::Hold message;
  message.key = std::move(key);
  message.note = plain(note);
  message.number = ++last_hold_;
  send(wire::encode(message), std::move(fds));
  return message.number;
}

uint64_t SupervisorLink::renote(std::string key, std::vector<std::byte> note, size_t descriptors) {
  from_broker::Renote message;
  message.key = std::move(key);
  message.note = plain(note);
  message.descriptors = static_cast<uint32_t>(descriptors);
  message.number = ++last_hold_;
  send(wire::encode(message), {});
  return message.number;
}

void SupervisorLink::release(const std::string& key) {
  from_broker::Release message;
  message.key = key;
  send(wire::encode(message), {});
}

Result<std::optional<SupervisorLink::Received>> SupervisorLink::receive() {
  auto frame = channel_.receive();
  if (!frame) {
    lost_ = true;
    return frame.error();
  }
  if (!frame.value()) return std::optional<Received>();
  auto message = wire::decode<to_broker::Any>(frame.value()->bytes);
  if (!message) {
    lost_ = true;
    return message.error();
  }
  return std::optional<Received>(
      Received{std::move(message).value(), std::move(frame.value()->fds)});
}

pollfd SupervisorLink::poll_entry() const {
  const int events = POLLIN | (channel_.wants_write() ? POLLOUT : 0);
  return pollfd{channel_.descriptor(), static_cast<short>(events), 0};
}

void SupervisorLink::flush() {
  if (!lost_ && channel_.wants_write() && !channel_.flush()) lost_ = true;
}

}  // namespace laneway::service
