// The records of a trace (service/trace): what the core took and decided, the iterations of the
// lanes, and what the log itself has to say. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "service/wire/iteration_note.h"

namespace laneway::wire::trace {

// A broker begins, the first one or the next after a death.
struct Started {
  int32_t pid = 0;
  uint64_t epoch = 0;  // 1 for the first broker of a service, one more for each that follows
  uint64_t pool_bytes = 0;
  uint64_t reserve_bytes = 0;
  uint32_t lanes = 0;  // at most so many; 0: as many as pay
  std::string policy;
  std::string version;
};

struct Heard {  // by the core
  lanes::Event event;
};

struct Decided {  // by the core
  lanes::Action action;
};

struct Iterated {
  IterationNote note;
};

struct PolicySet {  // it decides from here on
  std::string policy;
};

// What should stand before this record and does not, because the log's room was full.
struct Lost {
  uint64_t records = 0;
  uint64_t iterations = 0;  // that the worker had no room to report
};

// The service ended because it was asked to.
struct Ended {};

using Entry = std::variant<Started, Heard, Decided, Iterated, PolicySet, Lost, Ended>;

// Numbered by their place in Entry: new ones go to the end, and changed ones raise the version of
// the file (service/trace/trace_file.h).
struct Record {
  int64_t time_ns = 0;  // on the machine's steady clock; of an iteration, its start
  Entry entry;
};

}  // namespace laneway::wire::trace
