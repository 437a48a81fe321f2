#include "service/worker/lanes/suspect_trials.h"

namespace laneway::service {

bool SuspectTrials::may_begin(const WorkerLane& lane, const WorkerJob& job) const {
  if (tried_ != nullptr && tried_ != &job) return false;
  return job.suspected == 0 || !lanes_.another_is_busy(lane);
}

void SuspectTrials::seek(const WorkerJob& suspect) {
  if (suspect.visitors > 0 || suspect.running || !suspect.ready()) return end(suspect);
  if (tried_ != nullptr) return;
  tried_ = &suspect;
  lanes_.retire_soon();
}

void SuspectTrials::end(const WorkerJob& job) {
  if (tried_ == &job) work_ended(job);
}

void SuspectTrials::work_ended(const WorkerJob& job) {
  if (tried_ == nullptr) return;
  if (tried_ == &job) tried_ = nullptr;
  lanes_.wake_all();
}

}  // namespace laneway::service
