// What a broker has the supervisor hold of what it counts, so that its successor goes on from
// there. Key: "c". Plain data.
#pragma once

#include "lanes/state/counters.h"
#include "service/wire/message.h"
#include "service/wire/service_facts.h"

namespace laneway::wire::held {

struct Counters {
  static constexpr MessageType kType{.number = 416, .name = "held::Counters", .max_bytes = 1024};
  lanes::Counters core;
  ServiceCounters service;
};

}  // namespace laneway::wire::held
