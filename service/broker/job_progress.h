// JobProgress: how far jobs are: the core's snapshot, with the iterations that jobs have run in
// turns that are still open (a job alone in its lane may keep its turn for hours) and their pace.
// Not thread-safe.
#pragma once

#include <vector>

#include "base/clock.h"
#include "lanes/state/snapshot.h"
#include "service/broker/broker_core.h"
#include "service/broker/job_table.h"
#include "service/journal/journal_view.h"
#include "service/wire/service_facts.h"

namespace laneway::service {

class JobProgress {
 public:
  // Both must outlive this object.
  JobProgress(JobTable& table, const Clock& clock) : table_(table), clock_(clock) {}
  // Must be called before snapshot(); `core` must outlive this object.
  void set_core(BrokerCore& core) { core_ = &core; }
  // The worker's journal, which must outlive this object; without one, only turns that have ended
  // count.
  void set_journal(const JournalView& journal) { journal_ = &journal; }

  // A job's pace is its pace between the times of these calls.
  lanes::Snapshot snapshot();
  // What the core does not know of the job: whose it is, what it did to its workers or their
  // device, how much of its image the copy that is under way has moved.
  wire::JobFacts facts(const JobEntry& job) const;
  // Of every job, ascending; of these that are over, whose they were.
  std::vector<wire::JobFacts> facts(const std::vector<lanes::JobStatus>& ended) const;

 private:
  JobTable& table_;
  const Clock& clock_;
  BrokerCore* core_ = nullptr;
  const JournalView* journal_ = nullptr;
};

}  // namespace laneway::service
