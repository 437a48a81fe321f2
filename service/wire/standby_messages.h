// Messages between the broker and a standby, which prepares what it will be asked for when it is
// activated: jobs and graphs are decoded, checked and resolved. Nothing of them decides anything:
// an activated worker gets all that is held as worker_messages.h says, over another channel, and
// prepared things are only there sooner. Plain data.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/image_slot.h"
#include "service/wire/message.h"

// Broker to standby.
namespace laneway::wire::to_standby {

struct PrepareJob {  // + [graph memfd], the job's first graph -> Prepared
  static constexpr MessageType kType{.number = 271, .name = "to_standby::PrepareJob"};
  uint64_t job = 0;
  std::vector<ImageSlot> slots;
  friend bool operator==(const PrepareJob&, const PrepareJob&) = default;
};

struct PrepareGraph {  // + [graph memfd], a further graph of the job -> Prepared
  static constexpr MessageType kType{.number = 272, .name = "to_standby::PrepareGraph"};
  uint64_t job = 0;
  uint32_t number = 0;
  friend bool operator==(const PrepareGraph&, const PrepareGraph&) = default;
};

struct ForgetGraph {  // it was dropped
  static constexpr MessageType kType{.number = 273, .name = "to_standby::ForgetGraph"};
  uint64_t job = 0;
  uint32_t number = 0;
  friend bool operator==(const ForgetGraph&, const ForgetGraph&) = default;
};

struct ForgetJob {  // it is gone
  static constexpr MessageType kType{.number = 274, .name = "to_standby::ForgetJob"};
  uint64_t job = 0;
  friend bool operator==(const ForgetJob&, const ForgetJob&) = default;
};

// All jobs that there are were named on this channel: what is prepared of others is dropped. And
// images may have been placed since the last time: the pages of the pool that have bytes are
// mapped.
struct Settle {
  static constexpr MessageType kType{.number = 275, .name = "to_standby::Settle"};
  friend bool operator==(const Settle&, const Settle&) = default;
};

using Any = std::variant<PrepareJob, PrepareGraph, ForgetGraph, ForgetJob, Settle>;

}  // namespace laneway::wire::to_standby

// Standby to broker.
namespace laneway::wire::from_standby {

// The answer to PrepareJob (number 0) and PrepareGraph, in their order.
struct Prepared {
  static constexpr MessageType kType{.number = 281, .name = "from_standby::Prepared"};
  uint64_t job = 0;
  uint32_t number = 0;
  bool ok = true;  // false: it is made when it is asked for
  friend bool operator==(const Prepared&, const Prepared&) = default;
};

using Any = std::variant<Prepared>;

}  // namespace laneway::wire::from_standby
