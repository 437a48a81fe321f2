// first_to_leave: whose image leaves the pool under a policy that is an order of jobs.
//
// Idle jobs first: who has not been used for longest, for what it costs. Unused time is set against
// the transfers that leaving costs (one when the image comes back, another one first unless a copy
// lies outside already); bytes cancel out, because what is freed grows with them as the cost does.
//
// Then jobs with work: the last one by the order, and nobody for a job that does not go before it.
// Equal ranks go by arrival, so that who was there first stays until it is done; but inferences
// without a total, which are served request by request for as long as they live, go by when they
// asked, and take turns with each other: the one that has been in the pool for longest leaves. For
// an overdue job (common_rules.h) anybody leaves.
#pragma once

#include <cstdint>
#include <span>

#include "base/time.h"
#include "policies/decision.h"

namespace laneway::policies {

// It has no end of its own: what is waited for is a request.
inline bool is_by_request(const JobView& job) {
  return job.options.job_class == JobClass::inference && job.options.total_iterations == 0;
}

// Breaks ties, among jobs that wait and among those that may leave: by arrival, or, of those by
// request, by when they asked for the pool. Both must agree, or two jobs leave for each other.
inline uint64_t turn_of(const JobView& job) { return is_by_request(job) ? job.queue : job.arrival; }

// The idle one that leaves first; none when nobody is idle.
JobId least_used(TimePoint now, std::span<const EvictCandidate> candidates);

// Collects who leaves among those with work.
class LastOfThoseWithWork {
 public:
  // `all_take_turns`: equal ranks as if all were by request.
  LastOfThoseWithWork(const EvictQuestion& question, int64_t wants, bool all_take_turns)
      : question_(question), wants_(wants), all_take_turns_(all_take_turns) {}
  // Requires: it has work.
  void see(const JobView& job, int64_t rank);
  // None: nobody leaves for who wants the room.
  JobId job() const { return last_ == nullptr ? JobId() : last_->id; }

 private:
  bool takes_turns(const JobView& job) const { return all_take_turns_ || is_by_request(job); }
  bool leaves(const JobView& job, int64_t rank) const;
  bool is_later(const JobView& job, int64_t rank) const;

  const EvictQuestion& question_;
  const int64_t wants_;
  const bool all_take_turns_;
  const JobView* last_ = nullptr;
  int64_t last_rank_ = 0;
};

template <class RankOf>
JobId first_to_leave(TimePoint now, const EvictQuestion& question, const RankOf& rank_of,
                     bool all_take_turns = false) {
  if (const JobId idle = least_used(now, question.candidates); idle.valid()) return idle;
  LastOfThoseWithWork last(question, rank_of(question.wants), all_take_turns);
  for (const EvictCandidate& one : question.candidates) last.see(*one.job, rank_of(*one.job));
  return last.job();
}

}  // namespace laneway::policies
