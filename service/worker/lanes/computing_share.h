// ComputingShare: how many threads the work in progress of one lane computes with, as a part of the
// number for all lanes (WorkerContext::computing_threads), which clients are told: they do not spin
// where cores are short. Several threads are a team (lane_teams.h). Not thread-safe: the lane
// guards it by the worker's mutex.
#pragma once

#include <cstdint>
#include <utility>

#include "service/worker/common/bookkeeping.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"

namespace laneway::service {

class ComputingShare {
 public:
  // The context must outlive the share.
  ComputingShare(WorkerContext& context, LaneId lane) : context_(context), lane_(lane) {}

  // The lane computes with so many threads now, for that job.
  void begin(uint32_t threads, WorkerJob& job) LW_REQUIRES(kBookkeeping) {
    context_.computing_threads += threads - threads_;
    threads_ = threads;
    if (threads > 1) context_.teams.begin(lane_);
    for (const auto& link : job.links) link->ring->publish_threads(context_.computing_threads);
  }
  // It computes with none for a while. Returns with how many it did.
  uint32_t suspend() LW_REQUIRES(kBookkeeping) {
    const uint32_t threads = threads_;
    end();
    return threads;
  }
  void end() LW_REQUIRES(kBookkeeping) {
    context_.computing_threads -= std::exchange(threads_, 0);
    context_.teams.end(lane_);
  }

 private:
  WorkerContext& context_;
  const LaneId lane_;
  uint32_t threads_ LW_GUARDED_BY(kBookkeeping) = 0;
};

}  // namespace laneway::service
