// CommonRules: what holds whatever the policy: it stands around every policy that the registry
// makes.
//
// 1. A bound on waiting for a turn (age=on, the default). A job that has had work and no iteration
//    for max(age_s (default 1), kShare of its iterations) times the number of the other jobs with
//    work in its lane goes first, for one iteration; who has waited longest is the first of these.
//    Turns end when that is due. So with at most R others a job waits for at most R times that,
//    plus what is open then (an iteration and kShortestSlice), plus one iteration of each of the R
//    before it; and at most one part in kShare of the lane is taken from the policy's order.
//    Source: ageing, as in the waiting-time bound of multilevel feedback (Corbato et al., "An
//    experimental time-sharing system", 1962); that it grows with the number of those who wait
//    keeps the policy's order under load.
// 2. A bound on waiting outside of the pool (age=on). Of those who wait the one that does for
//    longest is *overdue* after max(reserve_s (default 600), kShare x kStay switches for each of
//    those who wait), if images can leave: it gets in whoever goes before it, and stays as long as
//    the core's rule for jobs with work says, kStay switches. That takes one part in kShare of the
//    device from the policy's order, at most. Where no image can leave, it has a *reservation*
//    after max(reserve_s, kShare x the known work in front of it by lanes): nobody is admitted
//    before it. Source: reservations of backfilling schedulers (Lifka, "The ANL/IBM SP scheduling
//    system", 1995); by the work in front, because under load a fixed time makes any order fifo.
// 3. Jobs of class best_effort run when no other job in their lane has work, ageing excepted, and
//    give their lane to one that waits in another.
// 4. A job that another one with work may interrupt (Policy::urgency) gets no turn before it,
//    ageing excepted.
// 5. share=no: a job is admitted to a new lane or not at all, and lanes never become one.
//
// With age=off the policy's own bound is all there is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policies/policy.h"
#include "policies/policy_options.h"

namespace laneway::policies {

class CommonRules final : public Policy {
 public:
  // Takes the options age, age_s, reserve_s and share. Requires: `rule` is not null.
  CommonRules(PolicyOptions& options, std::unique_ptr<Policy> rule);

  // Shorter turns are not asked for.
  static constexpr Duration kShortestSlice = milliseconds(1);
  // One part in so many of the device may be taken from the policy's order.
  static constexpr int64_t kShare = 20;
  // Who got in because it was overdue stays for about so many switches: the core's stay rule.
  static constexpr int64_t kStay = 20;

  std::string_view name() const override { return rule_->name(); }
  AdmitDecision admit(TimePoint now, const View& view) override;
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  int64_t urgency(TimePoint now, const View& view, const JobView& job) const override {
    return rule_->urgency(now, view, job);
  }
  TurnRank turn_rank(TimePoint now, const View& view, const JobView& job) const override;
  EvictDecision evict(TimePoint now, const View& view, const EvictQuestion& question) override;
  // Those with a reservation first, by `queue`.
  int64_t admission_rank(TimePoint now, const View& view, const JobView& job) const override;
  void gone(JobId job) override;
  std::optional<PolicyNote> note(const JobView& job) const override { return rule_->note(job); }
  void recall(const View& view, const JobView& job, const PolicyNote& note) override {
    rule_->recall(view, job, note);
  }
  std::optional<Duration> late(TimePoint now, const View& view, const JobView& job) const override;
  Advised* advised() override { return rule_->advised(); }

 private:
  // Of those who wait, who does for longest; null: nobody waits.
  static const JobView* eldest(const View& view);
  // Who is overdue, or has a reservation: the eldest when it is due, and from then on until it is
  // in, whoever comes and goes meanwhile. Null: nobody.
  const JobView* overdue_outside(TimePoint now, const View& view);
  // When the eldest is overdue, or gets its reservation.
  TimePoint outside_due(TimePoint now, const View& view, const JobView& job) const;
  // What is known to be left of the jobs that go before it, by the number of lanes.
  Duration work_in_front(TimePoint now, const View& view, const JobView& job) const;
  // When a job that waits for a turn goes first.
  TimePoint due(const JobView& job, const PickQuestion& question) const;
  // Not before; it costs no division.
  TimePoint may_be_due(const JobView& job, const PickQuestion& question) const {
    return job.ready_since + age_ * static_cast<int64_t>(question.candidates.size() - 1);
  }
  // The one that has been due for longest; null: nobody is.
  const JobView* overdue(TimePoint now, const PickQuestion& question) const;
  // Whether they are of one urgency, and all or none of them best effort.
  bool are_equal(TimePoint now, const View& view, std::span<const JobView* const> all) const;
  // Keeps in `foremost_` those that are not best effort, if there are any, and of them the most
  // urgent ones.
  void keep_foremost(TimePoint now, const View& view, std::span<const JobView* const> all);
  PickDecision ask_rule(TimePoint now, const View& view, const PickQuestion& question);
  // Ends the turn when the next of the others is due.
  void bound(TimePoint now, const PickQuestion& question, PickDecision& decision) const;

  std::unique_ptr<Policy> rule_;
  bool ages_;
  Duration age_;
  Duration reserve_;
  uint64_t overdue_ = 0;     // by `queue`: whom overdue_outside named the last time
  std::vector<JobId> aged_;  // by lane slot: whose turn it is because it was due; none: nobody's
  std::vector<const JobView*> foremost_;  // ask_rule's, kept for its memory
};

}  // namespace laneway::policies
