// LaneWatch: finds a lane of the active worker that hangs. It compares, by the supervisor's own
// clock, what lanes note in the journal (journal_layout.h): a lane that does something and shows no
// progress for longer than its bound hangs. A lane that waits for somebody does not.
//
// A step of an iteration may take as long as the worker says (fifty times the longest that it has
// seen of the graph's nodes, and at least 2 s), and 60 s while that is not measured. A supervisor
// that was itself late (stopped with the whole service, or on a machine without time) knows nothing
// of what happened meanwhile, so all bounds begin anew. Reads shared memory that somebody else
// writes, and believes nothing of it but numbers. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "service/journal/journal_layout.h"

namespace laneway::service {

class LaneWatch {
 public:
  struct Times {
    Duration look = milliseconds(250);  // between two looks
    Duration shortest = seconds(2);     // bound of a step
    Duration unmeasured = seconds(60);
    // Copies, plans, snapshots: without an end at most so long, and as long as a copy of the whole
    // pool takes (longest_copy).
    Duration other = seconds(60);
  };
  struct Hang {
    LaneId lane;  // none: the thread that places images
    JobId job;
    uint32_t graph = 0;
    uint32_t node = 0;
    LaneDoing doing = LaneDoing::nothing;
    Duration since;
    Duration bound;
  };

  // The journal must outlive the watch.
  LaneWatch(JournalMemory& journal, Times times) : journal_(journal), times_(times) {}

  // Another worker becomes active. Must be called when the worker before it is dead and before it
  // is told: what the lanes note now is the dead worker's, and nobody's hang until it changes.
  void begin_worker();
  // A lane that hangs, which is noted in the journal for the worker's successor. Must be called
  // every `look` while a worker is active.
  std::optional<Hang> look(TimePoint now);

 private:
  struct Seen {
    uint64_t steps = 0;
    uint32_t doing = 0;
    uint64_t job = 0;
    TimePoint since;
    bool of_dead_worker = false;

    bool same_notes(const Seen& other) const {
      return steps == other.steps && doing == other.doing && job == other.job;
    }
  };
  static Seen seen_now(const LaneNotes& notes, TimePoint now);

  Duration bound_of(const LaneNotes& notes) const;

  JournalMemory& journal_;
  const Times times_;
  std::optional<TimePoint> last_look_;
  std::array<Seen, kNoted> seen_{};
};

// What a copy of the whole pool may take, at the rate that copies are slowed down to (0: they are
// not), or at a hundredth of what memory does.
Duration longest_copy(Bytes pool, int64_t bytes_per_s);

// "lane 2 of job 7 (graph 0, node 31) has shown no progress for 2.5 s; its bound is 2 s".
std::string text_of(const LaneWatch::Hang& hang);

}  // namespace laneway::service
