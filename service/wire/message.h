// What every message of the service carries beside its fields: a type number (never reused), the
// version of the type (raised when its fields change), its name for errors, and the most bytes that
// it may have. Messages are plain structs: their members, and those of the structs in them, travel
// in the order of their declaration (service/wire/fields.h), so another order is another version.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "service/wire/limits.h"

namespace laneway::wire {

struct MessageType {
  uint16_t number = 0;
  uint16_t version = 1;
  const char* name = "";
  uint32_t max_bytes = limits::kMaxMessageBytes;
};

template <class M>
concept Message = requires {
  { M::kType } -> std::convertible_to<MessageType>;
};

// What a session is known by: given at its beginning, repeated in every message of it.
using Token = std::array<uint8_t, 16>;

// What a message travels under. A reply repeats the request's.
struct Envelope {
  uint64_t request = 0;  // 1, 2, … in a session; 0: no request
  Token token{};         // zero before there is a session
  friend bool operator==(const Envelope&, const Envelope&) = default;
};

}  // namespace laneway::wire
