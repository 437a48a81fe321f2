// Fair: each lane's device time is shared by weight: of two jobs that both have work all the time,
// one with twice the weight gets twice the time, whatever their iterations take. Start-time fair
// queueing: a turn has a start tag, the later of the lane's virtual time and the end of the job's
// turn before; it ends its device time / weight later. The smallest start tag runs, and is the
// virtual time. So a job that comes, or had nothing to do, begins with its share from now on and
// is owed nothing for before. What a job had beyond a quantum while nobody else wanted its lane is
// not counted. Each lane has its virtual time, because not every job fits every lane; tags are of
// one measure over all of them, by which jobs change their lane, and who comes into another one has
// a tag there of at most a quantum from its virtual time.
//
// Source: Goyal, Vin and Cheng, "Start-time Fair Queueing: A Scheduling Algorithm for Integrated
// Services Packet Switching Networks", SIGCOMM 1996, with a turn in place of a packet. Its theorem
// 1: over any interval in which two jobs have work, their times / weights differ by at most the
// sum of their longest turns / weights; a turn is the quantum and at most the longest iteration
// longer.
// Knows: device time had, weight, arrival.
// Option quantum_s (default 0.02): how long a turn is while others wait.
// Bound: a job waits for at most what its rivals may be ahead: by the theorem, for the sum over
// the rivals of (quantum + longest iteration) x (1 + their weight / its weight); and that of
// CommonRules.
// When memory is short: of jobs with work the one with the largest tag leaves, what its open turn
// took included, for one with a smaller tag, once it was there for a quantum; so that they share by
// weight, a quantum (or what the core's stay rule says, if that is longer) at a time. Who has
// nothing to run leaves first.
// A core that takes over goes on with the tags: they are noted with each turn, and with what a job
// had since they follow.
#pragma once

#include <unordered_map>
#include <vector>

#include "policies/policy.h"
#include "policies/policy_options.h"

namespace laneway::policies {

class Fair final : public Policy {
 public:
  explicit Fair(PolicyOptions& options);

  std::string_view name() const override { return "fair"; }
  // By arrival, head of line.
  AdmitDecision admit(TimePoint now, const View& view) override;
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  EvictDecision evict(TimePoint now, const View& view, const EvictQuestion& question) override;
  int64_t admission_rank(TimePoint /*now*/, const View& /*view*/,
                         const JobView& job) const override {
    return static_cast<int64_t>(job.queue);
  }
  // By tag, then by who waits for longest; and a turn goes on for a quantum.
  TurnRank turn_rank(TimePoint now, const View& view, const JobView& job) const override;
  void gone(JobId job) override;
  // Its tag (the bits of a double), and the device time with which that was made.
  std::optional<PolicyNote> note(const JobView& job) const override;
  void recall(const View& view, const JobView& job, const PolicyNote& note) override;

 private:
  struct Account {
    LaneId lane;
    Duration busy;   // of the job, when it was charged last
    double tag = 0;  // start tag of its next turn; nanoseconds / weight
  };

  // A lane's virtual time, and the only candidate of its last pick.
  struct Clock {
    double time = 0;
    JobId alone;
  };

  // Charges the job with what it had, and with a change of its lane.
  void charge(const JobView& job);
  double lane_time(LaneId lane) const;
  // The start tag of the next turn of a job in a lane, with what its open one took so far.
  double tag_now(TimePoint now, const JobView& job) const;
  // Of one that wants into the lane.
  double tag_of_comer(const JobView& job, LaneId lane) const;

  Duration quantum_;
  std::unordered_map<JobId, Account> accounts_;
  std::vector<Clock> clocks_;  // by lane slot
};

}  // namespace laneway::policies
