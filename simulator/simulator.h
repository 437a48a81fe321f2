// Simulator: the real core (lanes::Scheduler) in virtual time, with an exact worker, link and
// clients. Turns advance analytically: an event is a turn's end, a copy's end, a job's coming or a
// wake-up of the core, so a day of trainings costs what its choices cost. All times are whole
// nanoseconds; equal jobs and configurations give equal results. What happens at one instant is
// told to the core together: completions first, then arrivals, then its timer.
//
// The worker is one that gets on: an iteration ends where its time says, nothing fails, no
// iteration is held or given up for a more urgent one (a recall waits for the boundary), and images
// are used only when they are whole. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lanes/core/scheduler.h"
#include "simulator/adviser.h"
#include "simulator/client.h"
#include "simulator/images.h"
#include "simulator/running_turn.h"
#include "simulator/sim_job.h"
#include "simulator/timeline.h"

namespace laneway::simulator {

// How fast jobs compute beside each other: `jobs` (numbered from 0, in the order of their lanes)
// compute, and `speeds`, one for each, is of what the job does alone; above 0.
using SpeedRule = std::function<void(std::span<const size_t> jobs, std::span<double> speeds)>;
// What the core heard and asked for at an instant.
using Observer = std::function<void(TimePoint now, std::span<const lanes::Event> events,
                                    std::span<const lanes::Action> actions)>;

struct SimulatorConfig {
  lanes::SchedulerConfig core;
  std::string policy = "fifo";  // as the registry reads it
  Duration turn_gap;            // from a turn's grant to its first iteration
  Duration start_up;            // from a job's submission until the core hears of it
  CopyRates copies;             // of images
  SpeedRule speeds;             // none: lanes are equal servers, each at full speed
  // The iterations of a turn take a time drawn evenly from (1 - jitter) to (1 + jitter) of the
  // job's; of a job's n-th turn the seed draws the same whatever the policy. Below 1.
  double jitter = 0;
  uint64_t seed = 1;
  Observer observer;
};

struct Counts {
  uint64_t events = 0;  // that the core heard
  uint64_t turns = 0;
  uint64_t evictions = 0;
  uint64_t preemptions = 0;
  Bytes moved_in;  // of images, over the link
  Bytes moved_out;

  Counts& operator+=(const Counts& more);
};

class Simulator {
 public:
  // Requires: the registry knows the policy.
  explicit Simulator(SimulatorConfig config);
  // Whose program says the order, for a policy that is a file. Requires: nothing ran yet.
  void set_adviser(Adviser adviser);
  // Numbered from 0. Requires: nothing ran yet.
  void add(const SimJob& job);

  // Until all jobs are over. Error internal when they never will be: the core waits for nothing and
  // somebody is left, or it finds no end at one instant; errors of Adviser.
  Status run();
  // Up to this time, in which it may have nothing to do.
  Status run_until(TimePoint time);

  TimePoint now() const { return now_; }
  size_t jobs() const { return clients_.size(); }
  const SimJob& job(size_t job) const { return clients_.at(job).job(); }
  JobResult result(size_t job) const;
  Counts counts() const;
  size_t over() const { return over_; }  // jobs that ended or were refused
  // Up to the last instant at which anything happened.
  const Timeline& timeline() const { return timeline_; }
  const lanes::Scheduler& core() const { return core_; }
  size_t open_turns() const;

 private:
  struct Submission {
    TimePoint at;
    uint64_t number = 0;  // ties go by it
    size_t job = 0;
    bool operator>(const Submission& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  struct Lane {
    std::unique_ptr<RunningTurn> turn;  // null: none is open
    size_t job = 0;                     // of that turn, or of the last one
    bool left_work = false;             // the last turn's job had more to do
    TimePoint due = TimePoint::never();
  };

  void start();
  TimePoint next() const;
  TimePoint offered_at(size_t job) const { return this->job(job).submit + config_.start_up; }
  // All that happens at `now_`.
  Status pass_instant();
  void collect();
  void offer_who_comes();
  void take_submissions();
  void carry_out();
  void carry_out(const lanes::GrantTurn& grant);
  void carry_out(const lanes::RecallTurn& recall);
  void carry_out(const lanes::AdmitJob& admit);
  void carry_out(const lanes::RefuseJob& refuse);

  // Progress up to now, and what follows from it: iterations that ended, the turn's end.
  void settle(Lane& lane);
  Duration iteration_of_turn(Client& client) const;
  void advance(Lane& lane);
  void end_turn(Lane& lane);
  void job_done(Client& client);
  // Who computes beside whom has changed.
  void find_speeds();
  void find_due(Lane& lane);
  void note_use();

  SimulatorConfig config_;
  lanes::Scheduler core_;
  std::optional<Adviser> adviser_;
  TimePoint now_;
  std::vector<Client> clients_;
  std::vector<size_t> arrivals_;  // jobs in the order in which they come
  size_t arrived_ = 0;
  std::priority_queue<Submission, std::vector<Submission>, std::greater<>> submissions_;
  uint64_t submission_numbers_ = 0;
  std::vector<Lane> lanes_;            // lane n is the n-th
  std::vector<lanes::Event> events_;   // for the core, of this instant
  std::vector<lanes::Event> handled_;  // kept for its memory
  std::vector<lanes::Action> actions_;
  Images images_;
  bool speeds_changed_ = false;
  bool started_ = false;
  size_t over_ = 0;
  Counts counts_;
  Timeline timeline_;
};

}  // namespace laneway::simulator
