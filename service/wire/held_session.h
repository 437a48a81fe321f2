// What the gateway has the supervisor hold of its sessions, as notes. Keys: "s/SESSION" with the
// lifeline once it is open, "s/ids" for the counter, "p/SESSION/REQUEST" for the descriptors of a
// request, without a note. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "service/wire/message.h"

namespace laneway::wire::held {

struct Session {  // + [lifeline] once it is open
  static constexpr MessageType kType{.number = 421, .name = "held::Session", .max_bytes = 8192};
  uint64_t session = 0;
  Token token{};
  uint32_t user = 0;  // uid
  int32_t pid = 0;
  std::string program;
  friend bool operator==(const Session&, const Session&) = default;
};

struct SessionIds {  // numbers up to this one may have been given
  static constexpr MessageType kType{.number = 422, .name = "held::SessionIds", .max_bytes = 64};
  uint64_t last = 0;
  friend bool operator==(const SessionIds&, const SessionIds&) = default;
};

}  // namespace laneway::wire::held
