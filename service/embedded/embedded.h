// EmbeddedService: core and worker inside the user's process: a device, one pool, the core's loop
// and the worker, wired together. The same parts stand behind the daemon; here the loop is drained
// by whichever thread posts. Thread-safe; close() comes before the destructor's end and is called
// by it.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "adaptor/device/backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "lanes/core/core_loop.h"
#include "service/api/close_at_exit.h"
#include "service/api/job_request.h"
#include "service/embedded/embedded_policy.h"
#include "service/worker/worker.h"

namespace laneway::service {

struct EmbeddedOptions {
  Bytes pool;  // 0: half of the memory that is free now; 90 % of another device's than the host
  std::string policy = "fifo";  // or a file, by its path from here
  uint32_t lanes = 0;           // at most; 0: as many as pay by measure
  std::string device = "host";
  uint32_t lane_sms = 0;  // multiprocessors of each lane's own; 0: all lanes share all
  // Of the machine's memory for images that are not in the pool; none: as much as the pool.
  std::optional<Bytes> store{};
  std::string spill_folder{};  // empty: no file for them
  Bytes spill{};
  pipeline::PrefixRule prefix{};
};

class EmbeddedService final : public OpenService, private EventSink {
 public:
  static Result<std::unique_ptr<EmbeddedService>> open(const EmbeddedOptions& options);
  ~EmbeddedService() override;

  // Refused at once (with the arithmetic) when it can never fit; else it may be waiting.
  Result<JobHandle> create_job(const JobRequest& request, std::span<const std::byte> graph)
      LW_EXCLUDES(jobs_mutex_);
  // The newest job of this name, if it was made shared; else refused.
  Result<JobHandle> attach(const std::string& name) LW_EXCLUDES(jobs_mutex_);
  // Ends the job that the text means (service/wire/job_ref.h); invalid_argument when there is none.
  Status kill(const std::string& job) LW_EXCLUDES(jobs_mutex_);
  // Tells the core what is wanted of where the image of that job is.
  Status set_residency(const std::string& job, lanes::Residency wanted) LW_EXCLUDES(jobs_mutex_);
  // Tells the core what the policy is to know of that job. Requires: check_job_changes.
  Status set(const std::string& job, const JobChanges& changes) LW_EXCLUDES(jobs_mutex_);
  Status set_policy(const std::string& text);
  // The pool's size from now on. Errors as lanes::may_resize and lanes::may_grow_to.
  Status set_pool(Bytes wanted);
  Worker& worker() { return *worker_; }
  // What graphs are captured for; lives as long as this object.
  const std::string& kernels() const { return kernels_; }

  // The core's, as of now.
  lanes::Snapshot snapshot();
  // JSON; unavailable after close.
  Result<std::string> status(bool with_ended = true);
  Result<std::string> job_report(WorkerJob& job, bool with_tapes);
  // Without tapes, of the job that the text means.
  Result<std::string> job_report(const std::string& job) LW_EXCLUDES(jobs_mutex_);
  // Ends all jobs and frees the pool. Idempotent; others may still be inside calls with jobs.
  void close() LW_EXCLUDES(close_mutex_);
  void close_for_exit() override { close(); }

 private:
  // The job of this number, or the newest one of this name, that is not over.
  Result<JobHandle> find(const std::string& job) LW_EXCLUDES(jobs_mutex_);
  EmbeddedService(const EmbeddedOptions& options, std::unique_ptr<adaptor::Backend> backend,
                  std::unique_ptr<memory::MemoryBlock> pool, pipeline::OutsideImages outside,
                  std::unique_ptr<policies::Policy> policy);

  void post(lanes::Event event) override { loop_->post(std::move(event)); }
  void leave(lanes::Event event) override { loop_->leave(std::move(event)); }

  const SteadyClock clock_;
  const TimePoint start_ = clock_.now();
  const std::string device_name_;
  const std::string kernels_;
  // The pool's bytes go back, unless an operator still uses some: then they stay for good.
  void free_pool() LW_REQUIRES(close_mutex_);

  const Bytes pool_size_;
  std::unique_ptr<adaptor::Backend> backend_;
  std::unique_ptr<memory::MemoryBlock> pool_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<EmbeddedPolicy> policy_;  // between the loop and the worker
  std::unique_ptr<lanes::CoreLoop> loop_;
  std::atomic<uint64_t> last_job_{0};
  std::atomic<bool> closed_{false};
  Mutex close_mutex_;
  Mutex jobs_mutex_;
  std::vector<std::weak_ptr<WorkerJob>> jobs_ LW_GUARDED_BY(jobs_mutex_);  // oldest first
};

}  // namespace laneway::service
