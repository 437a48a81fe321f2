// Waiting for messages at a ZmqServer as its user must: ask readable() before every wait, since its
// descriptor announces changes only.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "service/transport/zmq_server.h"

namespace laneway::testing {

inline constexpr int kPatienceMs = 60'000;  // only a hang meets it

inline service::ZmqServer::Message next_message(service::ZmqServer& server) {
  while (true) {
    if (auto message = server.receive()) return std::move(*message);
    if (server.readable()) continue;
    pollfd wait{server.descriptor(), POLLIN, 0};
    LW_CHECK(poll(&wait, 1, kPatienceMs) > 0, "no message came");
  }
}

inline std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + text.size()};
}
inline std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace laneway::testing
