// LaneLimit: in how many lanes jobs compute at the same time, as measured. A further lane opens
// when the speeds of those that compute in it say that it pays, and closes when they say that it
// does not: beside others each iteration takes longer than alone, and what all lanes do together
// grows until the device is full.
//
// That is found by trials. In a trial only so many turns are open at the same time as its level
// says, lane after lane: one at first, then two, and so on. A lane's speed at a level is its
// iterations' time alone (level 1) divided by their time at that level; a level pays if the mean
// speed times the level, the sum of speeds of as many lanes, is above that of the level before by
// kMargin (or the next one does). The last level that pays is the limit. Where all lanes pay and
// jobs wait for turns, further ones are opened. Lanes whose jobs compute too little to be measured
// say nothing.
//
// Iterations of different jobs of a lane are made comparable by each job's mean time when it had
// its first turn in the trial. A lane's time alone is the median of its turns, since one turn that
// the machine disturbed says nothing about lanes. Beside others all turns count, because where
// lanes are more than processors some have one to themselves while others share. Inferences are not
// counted: they compute when somebody asks, and who waits for an answer loses more by a turn of
// another job than that one gains.
//
// Sources: control of the multiprogramming level by measured throughput (Heiss and Wagner,
// "Adaptive Load Control in Transaction Processing Systems", VLDB 1991); speeds normalised by the
// time alone as in Gavel (Narayanan et al., OSDI 2020).
//
// Plain data, no clock: the same calls decide the same. Not thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "lanes/state/iteration_sum.h"
#include "lanes/state/turn.h"

namespace laneway::lanes {

struct LaneLimitRules {
  bool measured = false;               // else there is no limit but the number of slots
  uint32_t first = 1;                  // the limit until something was measured
  Duration after = seconds(1);         // of load that several lanes share, before a trial
  Duration least = milliseconds(100);  // of computing by each lane at each level
  Duration again = seconds(30);        // between two trials; twice as long where nothing changes
};

class LaneLimit {
 public:
  // `slots`: how many lanes there may be at most.
  LaneLimit(const LaneLimitRules& rules, size_t slots);

  // Whether the policy leaves the number of lanes to measurement. What was found stays.
  void set_wanted(TimePoint now, bool wanted);
  bool on() const { return rules_.measured && wanted_; }
  // Lanes with jobs that are counted.
  uint32_t lanes() const { return on() ? lanes_ : slots(); }
  bool trying() const { return level_ > 0; }
  // In a trial: turns of them that are open at the same time, at most; else 0.
  uint32_t level() const { return level_; }

  // Several jobs have work at the same time: a trial is due after a while.
  void contended(TimePoint now) {
    if (on() && !trying() && due_ == TimePoint::never())
      due_ = std::max(no_sooner_, now + rules_.after);
  }
  // A job came or went: what was measured may be out of date.
  void jobs_changed(TimePoint now);
  // When look_again is due.
  TimePoint next_wakeup() const { return on() ? due_ : TimePoint::never(); }

  // The lanes that have work now, and whether jobs wait for turns of others of their lane.
  struct Load {
    LaneSet busy = 0;
    bool more = false;
  };
  // A trial begins, or, in one, lanes that have had nothing to do lately are left out. Requires:
  // it is due.
  void look_again(TimePoint now, const Load& load);
  // A turn of the lane begins. Requires: trying().
  void turn_began(LaneId lane);
  // Of a turn that was open at this level alone: what it measured of a job whose iterations take
  // `mean` as a rule. Requires: trying().
  void tell(LaneId lane, JobId job, Duration mean, const IterationSum& measured);
  // A turn has ended: the level, the trial or neither is over. Requires: trying().
  void turn_ended(TimePoint now, bool more) { look(now, more); }
  // The trial says nothing: all is as before.
  void give_up(TimePoint now);
  // It is due, and cannot be now.
  void put_off(TimePoint now);

 private:
  // In thousandths: by how much more a level must do than the one before.
  static constexpr int64_t kMargin = 50;
  // Iterations of each lane at each level, but of long ones (kLong); and so many short ones
  // suffice.
  static constexpr uint64_t kEnough = 4;
  static constexpr uint64_t kMany = 32;
  static constexpr Duration kLong = seconds(2);
  // Turns for each lane at a level, and times the time that suffices, after which lanes that still
  // say nothing are left out; and turns after which a lane that was opened should have had one.
  static constexpr uint64_t kMostTurns = 32;
  static constexpr int64_t kMostTimes = 4;
  static constexpr uint64_t kTurnsToCome = 3;
  // Trials take at most one part in kShare of the time.
  static constexpr int64_t kShare = 20;
  static constexpr uint32_t kMostDoublings = 4;

  // What a lane's turns at one level told.
  struct Told {
    uint64_t iterations = 0;
    Duration usual;  // of as many iterations
    Duration took;
    std::vector<double> paces;  // usual by taken, of each turn

    // Of the median turn; and of all together. Requires: there is one.
    double middle_pace() const;
    double pace() const { return pace_of(usual, took); }
  };
  struct Slot {
    Told alone;
    Told beside;
    bool had_turn = false;  // since look_again
  };

  static uint32_t step_up(uint32_t lanes) {
    return lanes + std::max(std::bit_floor(lanes) / 2, 1U);
  }
  static double pace_of(Duration usual, Duration took) {
    return static_cast<double>(usual.ns()) / static_cast<double>(took.ns());
  }
  static uint32_t count(LaneSet lanes) { return static_cast<uint32_t>(std::popcount(lanes)); }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  uint32_t taking_part() const { return count(part_); }
  bool is_missing() const { return opening_ && (part_ & ~old_) == 0; }
  bool is_enough(const Told& told) const;
  // Of those that take part, the ones of which not enough is known at this level.
  LaneSet silent() const;
  // Of this level, in thousandths.
  int64_t sum_of_speeds() const;
  void begin(TimePoint now, const Load& load);
  void open_more();
  void set_level(TimePoint now, uint32_t level);
  void look(TimePoint now, bool more);
  // Enough is known at this level.
  void go_on(TimePoint now, bool more);
  void end(TimePoint now, uint32_t lanes);

  LaneLimitRules rules_;
  std::vector<Slot> slots_;
  bool wanted_ = true;
  uint32_t lanes_;
  TimePoint due_ = TimePoint::never();
  TimePoint no_sooner_;
  TimePoint ended_at_;  // the last trial
  Duration took_;
  bool changed_ = false;  // jobs came or went since it began
  uint32_t same_results_ = 0;

  // Of the trial:
  uint32_t level_ = 0;
  TimePoint began_at_;
  TimePoint level_since_;
  uint32_t before_ = 0;   // the limit when it began
  LaneSet part_ = 0;      // lanes that take part
  bool opening_ = false;  // … and one that did not when more were opened is still to come
  LaneSet old_ = 0;       // those that did
  uint64_t turns_ = 0;    // that began at this level
  uint32_t best_ = 1;     // the last level that paid
  int64_t best_sum_ = 0;
  bool doubt_ = false;  // the level before did more, and too little to pay
  std::map<JobId, Duration> usual_;
};

}  // namespace laneway::lanes
