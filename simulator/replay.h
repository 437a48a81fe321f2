// Replay: feeds the cores of a service's record (lanewayd --trace, service/trace) what they were
// told, at the recorded instants, and compares every decision, to the bit. A record is whole by its
// check sums; what it says is believed as the core believes its owner, but for the configuration,
// which is checked. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "lanes/core/scheduler.h"
#include "service/trace/job_names.h"
#include "service/wire/trace_record.h"

namespace laneway::simulator {

struct ReplayCounts {
  uint64_t brokers = 0;
  uint64_t cores = 0;
  uint64_t instants = 0;  // calls of a core
  uint64_t events = 0;
  uint64_t actions = 0;
  uint64_t policies = 0;  // changes of them
  uint64_t lost = 0;      // records that the service had no room for
  uint64_t skipped = 0;   // calls that could not be repeated for that
  bool ended = false;     // the service ended as it was asked to
};

class Replay {
 public:
  // `began_ns`: times are told from there on.
  explicit Replay(int64_t began_ns) : began_ns_(began_ns) {}

  // In the order of the file. Error failed at the first decision that differs: when, what was
  // recorded, and what was decided now; invalid_argument where a record can't be what a service
  // wrote. Nothing is added after an error.
  Status add(const wire::trace::Record& record);
  // There are no more. Error invalid_argument when the last call is not whole.
  Status finish() const;

  const ReplayCounts& counts() const { return counts_; }

 private:
  // A call of the core, as far as its records have come.
  struct Call {
    int64_t time_ns = 0;
    wire::trace::Handled announced;
    std::vector<lanes::Event> events;
    std::vector<lanes::Action> actions;
    bool is_whole() const {
      return events.size() == announced.events && actions.size() == announced.actions;
    }
  };

  Status on(const wire::trace::Started& entry);
  Status on(const wire::trace::CoreBegan& entry);
  Status on(const wire::trace::Handled& entry);
  Status on(const wire::trace::Heard& entry);
  Status on(const wire::trace::Decided& entry);
  Status on(const wire::trace::PolicySet& entry);
  Status on(const wire::trace::Lost& entry);
  Status on(const wire::trace::Ended& entry);
  Status on(const wire::trace::Iterated& /*entry*/) { return {}; }

  Status repeat();
  Error differs(size_t action, const std::string& recorded, const std::string& decided) const;
  Error senseless(const std::string& what) const;
  std::string time() const;

  const int64_t began_ns_;
  int64_t now_ns_ = 0;
  ReplayCounts counts_;
  service::JobNames names_;
  std::unique_ptr<lanes::Scheduler> core_;  // null: none began, or its records have a gap
  bool gap_ = false;
  Call call_;
};

// A whole file. The error names it.
Result<ReplayCounts> replay(const std::string& path);
// One line, of what was repeated.
std::string replay_text(const ReplayCounts& counts);

}  // namespace laneway::simulator
