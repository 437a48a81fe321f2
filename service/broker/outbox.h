// Outbox: what the broker has to say to a worker, said in order as the channel drains. What is
// large, or brings copies of descriptors, is made only when the channel has taken everything before
// it: a broker that begins has all that is held to say, and neither those bytes nor those copies
// wait in this process. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "service/transport/channel.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

class Outbox {
 public:
  struct Letter {
    std::vector<std::byte> bytes;
    std::vector<Descriptor> fds;
  };
  // Nothing: it is not wanted any more. An error (no copy of a descriptor is to be had): not now,
  // and it is asked again; nothing behind it is said before.
  using Make = std::function<Result<std::optional<Letter>>()>;

  // What was to be said over the channel before is forgotten.
  void open(Channel channel);
  void close() { open(Channel()); }
  bool is_open() const { return channel_.valid(); }
  Channel& channel() { return channel_; }
  const Channel& channel() const { return channel_; }

  // Both, and flush(): an error means that the channel is of no further use. Requires: is_open().
  Status send(std::vector<std::byte> bytes);
  Status send_later(Make make);
  Status flush();

  // Why the first letter could not be made at the last flush(); none: it was made, or none waits.
  const std::optional<Error>& held_up() const { return held_up_; }
  // How many wait, beside what the channel has queued.
  size_t waiting() const { return letters_.size(); }

 private:
  struct Waiting {
    std::vector<std::byte> bytes;  // said as they are, when there is no make
    Make make;
  };

  Channel channel_;
  std::deque<Waiting> letters_;
  uint64_t waiting_bytes_ = 0;
  std::optional<Error> held_up_;
};

}  // namespace laneway::service
