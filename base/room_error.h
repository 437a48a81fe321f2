// wrong_room: the refusal of a caller whose place for a result has another size than the result.
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace laneway {

// Both in the same unit.
struct Room {
  uint64_t needed = 0;
  uint64_t given = 0;
};

// invalid_argument: `what` ("output 1 of graph 'step'") needs another room than the caller gave.
// `unit` is what the room counts ("bytes").
Error wrong_room(const std::string& what, const std::string& unit, Room room);

}  // namespace laneway
