// EnqueueRig: the host as a device that runs behind: what a lane enqueues is retired when the
// test says so, or fails. And EnqueueService: core and worker over it, with jobs of tiny_graphs.h
// whose figures show lost, doubled or reordered iterations. Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adaptor/device/device_job.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "lanes/core/core_loop.h"
#include "service/worker/worker.h"

namespace laneway::testing {

// What is in flight, over all lanes, in the order of enqueuing.
class Sky {
 public:
  class Plane;

  // The oldest that is still in flight may be retired; returns when it has been retired.
  void retire_one() LW_EXCLUDES(mutex_);
  // From here on all are retired at once.
  void open() LW_EXCLUDES(mutex_);
  // The next retiring fails so, and so does what comes later when the device is lost.
  void fail(const Error& error) LW_EXCLUDES(mutex_);
  // Waits until so many are in flight.
  void wait_for(size_t enqueued) LW_EXCLUDES(mutex_);
  size_t enqueued() LW_EXCLUDES(mutex_);
  // The most that there ever were.
  size_t most() LW_EXCLUDES(mutex_);
  Status health() LW_EXCLUDES(mutex_);
  std::unique_ptr<lanes::EnqueuedIteration> enqueue() LW_EXCLUDES(mutex_);

 private:
  friend class Plane;

  bool may_retire(uint64_t number) LW_REQUIRES(mutex_) { return open_ || number < cleared_; }
  Status retired(uint64_t number) LW_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  bool open_ LW_GUARDED_BY(mutex_) = false;
  uint64_t taken_off_ LW_GUARDED_BY(mutex_) = 0;
  uint64_t cleared_ LW_GUARDED_BY(mutex_) = 0;  // enqueued before this number may retire
  uint64_t landed_ LW_GUARDED_BY(mutex_) = 0;
  size_t most_ LW_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ LW_GUARDED_BY(mutex_);
};

// The host's, which fails with the device.
class EnqueueAccess final : public memory::PoolAccess {
 public:
  EnqueueAccess(Sky& sky, memory::PoolAccess& host) : sky_(sky), host_(host) {}
  Status write(void* to_pool, const void* from, Bytes bytes) override {
    Status health = sky_.health();
    return health ? host_.write(to_pool, from, bytes) : health;
  }
  Status read(void* to, const void* from_pool, Bytes bytes) override {
    Status health = sky_.health();
    return health ? host_.read(to, from_pool, bytes) : health;
  }
  Status copy_within(void* to_pool, const void* from_pool, Bytes bytes) override {
    Status health = sky_.health();
    return health ? host_.copy_within(to_pool, from_pool, bytes) : health;
  }
  Status fill(void* to_pool, std::byte value, Bytes bytes) override {
    Status health = sky_.health();
    return health ? host_.fill(to_pool, value, bytes) : health;
  }

 private:
  Sky& sky_;
  memory::PoolAccess& host_;
};

class EnqueueBackend final : public adaptor::Backend {
 public:
  explicit EnqueueBackend(Sky& sky) : sky_(sky) {}

  // The backend that computes: jobs are made for it.
  adaptor::Backend& host() { return *host_; }

  memory::Device& device() override { return host_->device(); }
  memory::PoolAccess& pool_access() override { return access_; }
  Result<std::unique_ptr<adaptor::DeviceLane>> make_lane() override;
  std::string kernels() const override { return "cpu"; }
  Bytes free_memory() const override { return host_->free_memory(); }
  Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int descriptor, Bytes size) override {
    return host_->attach_pool(descriptor, size);
  }
  size_t escaped_within(const std::byte* base, Bytes size) override {
    return host_->escaped_within(base, size);
  }
  Status health() const override { return sky_.health(); }

 private:
  Sky& sky_;
  const std::unique_ptr<adaptor::Backend> host_ = adaptor::open_backend("host", {}).value();
  EnqueueAccess access_{sky_, host_->pool_access()};
};

class EnqueueService final : private service::EventSink {
 public:
  // `journal`: as a worker process has one.
  explicit EnqueueService(uint32_t lanes = 1, service::Journal* journal = nullptr);
  ~EnqueueService() override;

  // A job of adding_graph, placed. `journal`: its steps are written down there.
  service::JobHandle add_job(const std::string& name,
                             std::optional<service::JobJournal> journal = {});
  // One iteration of the job's first graph with this input.
  std::shared_ptr<service::Work> submit(const service::JobHandle& job, float value);
  // The state's first figure, in order behind what was submitted.
  std::shared_ptr<service::Work> read(const service::JobHandle& job, float* into);

  Sky& sky() { return sky_; }
  service::Worker& worker() { return *worker_; }
  void post(lanes::Event event) override { loop_->post(std::move(event)); }
  void device_lost(const std::vector<std::pair<JobId, Error>>& why) override;
  // What the worker said of jobs that end with the device; nothing until it did.
  std::optional<std::vector<std::pair<JobId, Error>>> lost() LW_EXCLUDES(mutex_);

  static constexpr int64_t kCount = 16;

 private:
  Sky sky_;
  const SteadyClock clock_;
  EnqueueBackend backend_{sky_};
  std::unique_ptr<memory::MemoryBlock> pool_;
  std::unique_ptr<service::Worker> worker_;
  std::unique_ptr<lanes::CoreLoop> loop_;
  uint64_t last_job_ = 0;
  Mutex mutex_;
  std::optional<std::vector<std::pair<JobId, Error>>> lost_ LW_GUARDED_BY(mutex_);
};

// The output of an iteration that was waited for: all of its figures, which are equal.
Result<float> output_of(const std::shared_ptr<service::Work>& work);

}  // namespace laneway::testing
