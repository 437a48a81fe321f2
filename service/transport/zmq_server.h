// ZmqServer: the broker's side of clients' messages: a ZeroMQ ROUTER over a Unix socket that
// somebody else has bound (the supervisor, so that a new broker listens where the one before did
// and clients connect again by themselves). One frame a message; whatever else arrives is dropped
// and counted. Who sent a message is what the kernel says of the connection it came by.
//
// descriptor() announces changes, not states: ask readable() before every wait on it, since sending
// may have taken the announcement of a message that came meanwhile. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/transport/address.h"
#include "service/transport/channel.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

class ZmqServer {
 public:
  struct Message {
    std::string route;  // where an answer goes; of this connection, not of a client for ever
    PeerCredentials peer;
    std::vector<std::byte> bytes;
  };

  // `listener` is bound to the address and listening.
  static Result<ZmqServer> open(Descriptor listener, const Address& address);
  ZmqServer(ZmqServer&&) noexcept;
  ZmqServer& operator=(ZmqServer&&) noexcept;
  // Answers that are not yet sent get a second.
  ~ZmqServer();

  // The next message; nothing when none waits.
  std::optional<Message> receive();
  bool readable() const;
  int descriptor() const;

  // False: dropped, because the connection is gone or does not read (the client asks again).
  bool send(const std::string& route, std::span<const std::byte> bytes);

  // Messages that were not one frame, or of nobody that the kernel knows.
  uint64_t malformed() const;

 private:
  struct Inside;
  explicit ZmqServer(std::unique_ptr<Inside> inside);

  std::unique_ptr<Inside> inside_;
};

}  // namespace laneway::service
