// Advised: the order of an adviser outside of the core: somebody else's program, which is told of
// the jobs and says what rank each has (plugin/). The core never waits for it: what it says are
// events (lanes/state/event.h: Advice), and what it has not said yet is not known: who has no rank
// comes last, by arrival. While no adviser is there, the rule is fifo's.
// When memory is short: of jobs with work the last of the order leaves, for one that goes before
// it; equal ranks by arrival. Who has nothing to run leaves first (first_to_leave.h).
//
// Source: none; whatever the adviser's is.
// Knows: a rank, and what the job had and waited since the adviser knew of it (job_advice.h).
// Bound: that of CommonRules, whatever the adviser says or does not say.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>

#include "policies/job_advice.h"
#include "policies/ranked.h"

namespace laneway::policies {

class Advised final : public Ranked {
 public:
  // `name` is what people see of it: the adviser's file.
  explicit Advised(std::string name) : name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  // Ranks change with time: both say when the answer may be another one.
  AdmitDecision admit(TimePoint now, const View& view) override;
  EvictDecision evict(TimePoint now, const View& view, const EvictQuestion& question) override;
  PickDecision pick(TimePoint now, const View& view, const PickQuestion& question) override;
  void gone(JobId job) override { advice_.erase(job); }
  Advised* advised() override { return this; }

  // The adviser said where the job stands. Returns whether that is another place. Any finite
  // numbers may come.
  bool advise(TimePoint now, const View& view, const JobView& job, const JobAdvice& advice);
  // It is there from now on, or not any more; what it said before is forgotten.
  void set_adviser(bool is_there);

  // Device time of the job, with what its open turn took so far.
  static Duration busy_until(TimePoint now, const JobView& job);
  // For how long it has waited now: for its turn, or to get in; 0 when it waits for neither.
  static Duration waiting_until(TimePoint now, const JobView& job);

 private:
  // What was said of the job; null: nothing, or nobody is there.
  const JobAdvice* find(const JobView& job) const;
  // Its rank now.
  static double value_of(TimePoint now, const JobView& job, const JobAdvice& advice);
  int64_t rank(TimePoint now, const View& view, const JobView& job) const override;

  std::string name_;
  bool is_there_ = false;
  std::unordered_map<JobId, JobAdvice> advice_;
};

}  // namespace laneway::policies
