// JobService: what the broker asks of jobs, done by the Worker: descriptors become memory, specs
// become jobs, and each request has one answer. A broker that comes anew asks for everything that
// it holds again; what is there already is answered as the first time. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "service/journal/journal.h"
#include "service/transport/descriptor.h"
#include "service/wire/worker_messages.h"
#include "service/worker/process/graph_room.h"
#include "service/worker/process/prepared_jobs.h"
#include "service/worker/worker.h"

namespace laneway::service {

class JobService {
 public:
  // All outlive it.
  JobService(Worker& worker, adaptor::Backend& backend, Journal& journal, PreparedJobs& prepared,
             GraphRoom::Limits graphs)
      : worker_(worker),
        backend_(backend),
        journal_(journal),
        prepared_(prepared),
        graph_room_(graphs) {}

  using Answer = wire::from_worker::Any;

  Answer handle(const wire::to_worker::AddJob& message, std::vector<Descriptor> fds);
  Answer handle(const wire::to_worker::AddGraph& message, std::vector<Descriptor> fds);
  Answer handle(const wire::to_worker::DropGraph& message);
  Answer handle(const wire::to_worker::AddLink& message, std::vector<Descriptor> fds);
  Answer handle(const wire::to_worker::DropLink& message);
  Answer handle(const wire::to_worker::AddSegment& message, std::vector<Descriptor> fds);
  Answer handle(const wire::to_worker::DropSegment& message);
  Answer handle(const wire::to_worker::JobReport& message);
  Answer handle(const wire::to_worker::ReleaseJob& message);
  Answer handle(const wire::to_worker::SetResidency& message);
  // A broker has said everything that is held. What comes for the first time afterwards is new.
  void told_all() { told_all_ = true; }
  // Nothing: JobGone follows. It is the answer when there is no such job.
  std::optional<Answer> handle(const wire::to_worker::CloseJob& message);

 private:
  Result<JobHandle> make_job(const wire::to_worker::AddJob& message, std::vector<Descriptor> fds);
  // What the job computes with: prepared before, or made now.
  Result<GraphCache::Job> made_job(JobId id, const std::vector<ImageSlot>& slots,
                                   std::span<const std::byte> graph);
  Status check_room(uint32_t user, std::span<const std::byte> graph,
                    std::span<const ImageSlot> slots);
  Result<JobHandle> find(uint64_t job);
  Answer job_added(const wire::to_worker::AddJob& message, WorkerJob& job);

  Worker& worker_;
  adaptor::Backend& backend_;
  Journal& journal_;
  PreparedJobs& prepared_;
  GraphRoom graph_room_;
  bool told_all_ = false;
};

}  // namespace laneway::service
