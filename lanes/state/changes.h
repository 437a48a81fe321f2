// Changes: what has changed for somebody who waits, noted by its owner where it changes, and read
// by settle(), which then tries again. Nobody else asks for that: what is not noted is a job that
// waits for ever. Plain data.
#pragma once

#include <cstdint>

namespace laneway::lanes {

enum class Changed : uint8_t {
  // Somebody may find room:
  pool,      // something of the pool is free, or its capacity is another one (PoolMap)
  regions,   // a lane has a larger region, which others may share (RegionControl)
  jobs,      // which images may leave or move, or what a job needs (Job)
  held,      // a job is held for memory, or is no more (Job)
  order,     // who goes before whom: a job's options or times (Job), or the policy
  boundary,  // a lane that somebody waits for is between two turns (Lane::admission_wanted)
  bounds,    // the worker, the wanted capacity, or how many lanes may be
  time,      // a moment has come that somebody waits for (CoreState::retry_by)
  // The rest:
  queue,     // a waiting job came or went (CoreState), or work in front of one (Scheduler)
  ended,     // a job ended, or what jobs need outside of the pool is another sum (JobTable, Job)
  lanes,     // lanes may be more than the limit: LaneChanges::fold
  spread,    // … may have something for others: LaneChanges::spread looks at all
  contexts,  // the same, because other numeric contexts may begin, or another policy ranks
  lane,      // a lane's jobs, their order or its turn (CoreState::touch)
  fit,       // the needs of a lane's jobs (CoreState::want_fit)
};

class Changes {
 public:
  void note(Changed what) { noted_ |= bit(what) & heard_; }
  // Whether it was noted since it was taken last.
  bool take(Changed what) {
    const bool noted = (noted_ & bit(what)) != 0;
    noted_ &= ~bit(what);
    return noted;
  }
  bool may_give_room() const { return (noted_ & kRoom) != 0; }
  bool take_room() {
    const bool noted = may_give_room();
    noted_ &= ~kRoom;
    return noted;
  }
  bool hears(Changed what) const { return (heard_ & bit(what)) != 0; }

  // For checkers: as if all had changed.
  void note_all(bool but_room) {
    noted_ |= bit(Changed::contexts) | (but_room ? 0 : kRoom | bit(Changed::queue));
  }
  // For tests: these are lost from now on.
  void lose(Changed what) { heard_ &= ~bit(what); }

 private:
  static constexpr uint32_t bit(Changed what) { return 1U << static_cast<uint32_t>(what); }
  static constexpr uint32_t kRoom = (1U << static_cast<uint32_t>(Changed::queue)) - 1;

  uint32_t noted_ = 0;
  uint32_t heard_ = ~0U;
};

}  // namespace laneway::lanes
