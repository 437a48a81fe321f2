// What the parts of Gateway share. Included by them alone.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"

namespace laneway::service::gateway {

// What an event of the epoll is about: the kind in the top bits, the number below.
inline constexpr uint64_t kKindShift = 62;
inline constexpr uint64_t kListener = 1ull << kKindShift;
inline constexpr uint64_t kPendingConnection = 2ull << kKindShift;
inline constexpr uint64_t kLifeline = 3ull << kKindShift;
inline constexpr uint64_t kNumberMask = (1ull << kKindShift) - 1;

// What one call of handle_ready takes from one source, so that none starves the others.
inline constexpr int kMessagesAtOnce = 64;
inline constexpr int kFramesAtOnce = 16;

inline std::string session_key(SessionId session) { return "s/" + std::to_string(session.value()); }
inline constexpr const char* kIdsKey = "s/ids";
inline std::string message_key(SessionId session, uint64_t request) {
  return "p/" + std::to_string(session.value()) + "/" + std::to_string(request);
}

}  // namespace laneway::service::gateway
