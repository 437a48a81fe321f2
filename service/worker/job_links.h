// JobLinks: the links of a worker's jobs, by which other processes submit to them, and the segments
// of memory in which the blocks of their requests lie.
//
// Thread-safe: links and segments are guarded by the worker's mutex.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "memory/os/shared_memory.h"
#include "service/transport/ring_server.h"
#include "service/worker/jobs/device_health.h"
#include "service/worker/jobs/link_watcher.h"
#include "service/worker/jobs/worker_context.h"
#include "service/worker/jobs/worker_job.h"
#include "service/worker/jobs/worker_jobs.h"

namespace laneway::service {

class JobLinks {
 public:
  // All of them must outlive the links.
  JobLinks(WorkerContext& context, WorkerJobs& jobs, LinkWatcher& watcher, DeviceHealth& device)
      : context_(context), jobs_(jobs), watcher_(watcher), device_(device) {}

  // Another process submits to the job through `ring`, from where it stands. unavailable when the
  // job is over (the ring is told), refused when it has limits::kMaxLinksPerJob.
  // `owners`: it is the client that made the job.
  Status add(const JobHandle& job, uint32_t link, bool owners, std::unique_ptr<RingServer> ring);
  bool has(const WorkerJob& job, uint32_t link);
  // Nothing further is taken from it. What runs of it ends first, unwaited for.
  void drop(const JobHandle& job, uint32_t link);
  // Memory of the client's in which blocks of the link's requests lie. refused when it has
  // limits::kMaxSegmentsPerLink.
  Status add_segment(WorkerJob& job, uint32_t link, uint32_t segment, memory::SharedMemory memory);
  void drop_segment(WorkerJob& job, uint32_t link, uint32_t segment);

  // Requests may have come to a job without a turn: tells the core, or does what needs no turn.
  void attend(const JobHandle& job);

 private:
  WorkerContext& context_;
  WorkerJobs& jobs_;
  LinkWatcher& watcher_;
  DeviceHealth& device_;
};

}  // namespace laneway::service
