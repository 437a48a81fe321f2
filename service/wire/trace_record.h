// The records of a trace (service/trace): each core with its whole configuration, what it took and
// decided, the iterations of the lanes, and what the log itself has to say. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "lanes/state/action.h"
#include "lanes/state/core_state.h"
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

// A core begins that knows nothing of those before it: a broker's first one, or one that is made
// from a worker's report, which it hears first. Up to the next one all is of this core.
struct CoreBegan {
  lanes::SchedulerConfig config;
  std::string policy;
};

// One call of the core, whose time is the instant that the core was told. So many Heard and then so
// many Decided follow, with the same time.
struct Handled {
  uint32_t events = 0;
  uint32_t actions = 0;
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

struct PolicySet {  // it decides from the core's next call on
  std::string policy;
};

// What should stand before this record and does not, because the log's room was full.
struct Lost {
  uint64_t records = 0;
  uint64_t iterations = 0;  // that the worker had no room to report
};

// The service, or the recording, ended because it was asked to.
struct Ended {};

using Entry =
    std::variant<Started, Heard, Decided, Iterated, PolicySet, Lost, Ended, CoreBegan, Handled>;

// Numbered by their place in Entry: new ones go to the end, and changed ones raise the version of
// the file (service/trace/trace_file.h).
struct Record {
  int64_t time_ns = 0;  // on the machine's steady clock; of an iteration, its start
  Entry entry;
};

}  // namespace laneway::wire::trace
