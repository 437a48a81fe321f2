#include "service/broker/outbox.h"

#include <string>
#include <utility>

#include "service/transport/limits.h"

namespace laneway::service {

void Outbox::open(Channel channel) {
  channel_ = std::move(channel);
  letters_.clear();
  waiting_bytes_ = 0;
  held_up_.reset();
}

Status Outbox::send(std::vector<std::byte> bytes) {
  if (letters_.empty()) return channel_.send(bytes);
  if (waiting_bytes_ + bytes.size() > limits::kMaxChannelQueueBytes) {
    return Error{ErrorCode::refused,
                 "the other side does not read: " + std::to_string(waiting_bytes_) +
                     " bytes wait for it, and the limit is " +
                     std::to_string(limits::kMaxChannelQueueBytes)};
  }
  waiting_bytes_ += bytes.size();
  letters_.push_back({.bytes = std::move(bytes), .make = {}});
  return flush();
}

Status Outbox::send_later(Make make) {
  letters_.push_back({.bytes = {}, .make = std::move(make)});
  return flush();
}

Status Outbox::flush() {
  if (Status sent = channel_.flush(); !sent) return sent;
  held_up_.reset();
  while (!letters_.empty() && !channel_.wants_write()) {
    std::optional<Letter> letter;
    if (letters_.front().make) {
      auto made = letters_.front().make();
      if (!made) {
        held_up_ = made.error();
        return {};
      }
      letter = std::move(made).value();
    } else {
      waiting_bytes_ -= letters_.front().bytes.size();
      letter = Letter{.bytes = std::move(letters_.front().bytes), .fds = {}};
    }
    letters_.pop_front();
    if (!letter) continue;
    if (Status sent = channel_.send(letter->bytes, std::move(letter->fds)); !sent) return sent;
  }
  return {};
}

}  // namespace laneway::service
