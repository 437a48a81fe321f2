// The records of a trace as lines for people. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "service/trace/job_names.h"
#include "service/wire/trace_record.h"

namespace laneway::service {

// "heard TurnEnded turn 4: budget, 12 iterations in 3.120 ms, more is ready"; one line, whatever
// the names hold.
std::string entry_text(const wire::trace::Entry& entry, const JobNames& names);
// "+0.001234567"; "-" in front of what was before the beginning.
std::string time_text(int64_t ns);

// Times of a file, which may make no sense: they wrap around.
inline int64_t ns_plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t ns_between(int64_t from, int64_t to) {
  return static_cast<int64_t>(static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}

const char* turn_end_name(lanes::TurnEnd end);
const char* iteration_outcome_name(wire::IterationOutcome outcome);

}  // namespace laneway::service
