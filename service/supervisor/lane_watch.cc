#include "service/supervisor/lane_watch.h"

#include <algorithm>
#include <cstdio>

#include "service/supervisor/limits.h"

namespace laneway::service {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

std::string seconds_text(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", duration.seconds());
  return text;
}

const char* name_of(LaneDoing doing) {
  switch (doing) {
    case LaneDoing::nothing: return "waits";
    case LaneDoing::iterating: return "runs an iteration";
    case LaneDoing::copying: return "copies";
    case LaneDoing::planning: return "plans";
    case LaneDoing::snapshotting: return "takes a snapshot";
    case LaneDoing::restoring: return "restores a state";
    case LaneDoing::landing: return "waits for its device";
  }
  return "does what nobody knows";
}

}  // namespace

Duration LaneWatch::bound_of(const LaneNotes& notes) const {
  const auto doing = static_cast<LaneDoing>(notes.doing.load(relaxed));
  if (doing != LaneDoing::iterating) return times_.other;
  const uint32_t bound_ms = notes.bound_ms.load(relaxed);
  if (bound_ms == 0) return times_.unmeasured;
  return std::max(times_.shortest, milliseconds(bound_ms));
}

LaneWatch::Seen LaneWatch::seen_now(const LaneNotes& notes, TimePoint now) {
  return {.steps = notes.steps.load(relaxed),
          .doing = notes.doing.load(relaxed),
          .job = notes.job.load(relaxed),
          .since = now};
}

void LaneWatch::begin_worker() {
  last_look_.reset();
  for (size_t at = 0; at < seen_.size(); ++at) {
    seen_[at] = seen_now(notes_of(journal_, at), TimePoint());
    seen_[at].of_dead_worker = true;
  }
}

std::optional<LaneWatch::Hang> LaneWatch::look(TimePoint now) {
  // Late by so much: who stopped this process may have stopped the worker too.
  const bool anew = !last_look_ || now - *last_look_ > times_.look * 4;
  last_look_ = now;
  std::optional<Hang> hang;
  for (size_t at = 0; at < seen_.size(); ++at) {
    LaneNotes& notes = notes_of(journal_, at);
    Seen& seen = seen_[at];
    const Seen present = seen_now(notes, now);
    const bool moved = !present.same_notes(seen);
    if (seen.of_dead_worker && !moved) continue;
    if (anew || moved || present.doing == static_cast<uint32_t>(LaneDoing::nothing)) {
      seen = present;
      continue;
    }
    const Duration bound = bound_of(notes);
    if (now - seen.since <= bound || hang) continue;
    hang = {.lane = at < limits::kMaxLanes ? LaneId(at + 1) : LaneId(),
            .job = JobId(present.job),
            .graph = notes.graph.load(relaxed),
            .node = notes.node.load(relaxed),
            .doing = static_cast<LaneDoing>(present.doing),
            .since = now - seen.since,
            .bound = bound};
    notes.hung.store(1, std::memory_order_release);
  }
  return hang;
}

Duration longest_copy(Bytes pool, int64_t bytes_per_s) {
  const int64_t slowest = limits::kSlowestCopyPerS.count();
  const int64_t rate = bytes_per_s > 0 ? std::min(bytes_per_s, slowest) : slowest;
  return seconds(pool.count() / rate + 1);
}

std::string text_of(const LaneWatch::Hang& hang) {
  const std::string who = hang.lane.valid() ? "lane " + std::to_string(hang.lane.value())
                                            : std::string("the thread that places images");
  std::string text =
      who + " hangs: it " + name_of(hang.doing) + " for job " + std::to_string(hang.job.value());
  if (hang.doing == LaneDoing::iterating && hang.node != kNoNode) {
    text += " (graph " + std::to_string(hang.graph) + ", node " + std::to_string(hang.node) + ")";
  }
  return text + " and has shown no progress for " + seconds_text(hang.since) + "; its bound is " +
         seconds_text(hang.bound);
}

}  // namespace laneway::service
