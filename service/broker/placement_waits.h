// PlacementWaits: the requests that wait until a job's image is placed. Each is answered when the
// image is placed, when the job ends, or when its time is over: then with the reason why the job
// waits and an estimate of how long. Not thread-safe.
#pragma once

#include <map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "service/broker/job_entry.h"
#include "service/broker/job_progress.h"
#include "service/broker/job_table.h"
#include "service/broker/replies.h"
#include "service/wire/client_replies.h"

namespace laneway::service {

class PlacementWaits {
 public:
  // All must outlive this object.
  PlacementWaits(JobTable& table, JobProgress& progress, Replies& replies, const Clock& clock)
      : table_(table), progress_(progress), replies_(replies), clock_(clock) {}

  // Requires: the job's image is not placed.
  void add(JobId job, const ReplyTo& to, Duration patience);
  void on_placed(JobId job);
  void on_end(JobId job, const Error& why);

  // Answers whose time is over, and who waits for a job that is to end. `has_worker`: the core has
  // a worker now.
  void answer_due(bool has_worker);
  // When the first time is over.
  TimePoint next_wakeup() const;

 private:
  struct Wait {
    ReplyTo to;
    TimePoint until;
  };

  wire::JobWaits reason(const JobEntry& job, bool has_worker);

  JobTable& table_;
  JobProgress& progress_;
  Replies& replies_;
  const Clock& clock_;
  std::map<JobId, std::vector<Wait>> waits_;
};

}  // namespace laneway::service
