// PreemptRig: core and worker over the host, with jobs of tiny_graphs.h whose nodes stop at gates,
// so that a test decides where an iteration is while others come and go. Thread-safe.
#pragma once

#include <map>
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

// Where a job's iterations stop.
class NodeGate {
 public:
  // The next iteration that comes to this node waits there, inside the node, until go_on.
  void stop_at(size_t node) LW_EXCLUDES(mutex_);
  // Returns when one waits there.
  void wait_reached() LW_EXCLUDES(mutex_);
  void go_on() LW_EXCLUDES(mutex_);
  // The one that waits there goes on; the next that comes waits.
  void let_one_pass() LW_EXCLUDES(mutex_);
  // How often the node was run.
  uint64_t runs(size_t node) LW_EXCLUDES(mutex_);
  // Returns when the node was run so often.
  void wait_runs(size_t node, uint64_t runs) LW_EXCLUDES(mutex_);
  // Whether the last iteration might have been replayed.
  bool may_replay() LW_EXCLUDES(mutex_);
  // By the graph.
  void allow_replay(bool allowed) LW_EXCLUDES(mutex_);
  void enter(size_t node) LW_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<size_t> stop_ LW_GUARDED_BY(mutex_);
  bool reached_ LW_GUARDED_BY(mutex_) = false;
  uint64_t passes_ LW_GUARDED_BY(mutex_) = 0;
  bool may_replay_ LW_GUARDED_BY(mutex_) = false;
  std::map<size_t, uint64_t> runs_ LW_GUARDED_BY(mutex_);
};

class PreemptRig final : private service::EventSink {
 public:
  explicit PreemptRig(uint32_t lanes = 4);
  ~PreemptRig() override;

  struct GatedJob {
    service::JobHandle job;
    std::shared_ptr<NodeGate> gate;
    float expected = 0;  // its state, after all that was submitted
  };
  // A job of adding_graph (4 nodes, the third is the first that writes), placed, whose plan is
  // known: its next iteration is an ordinary one.
  GatedJob add_job(const std::string& name, int32_t priority);
  // Returns when the core has been told, and the lanes by it.
  std::shared_ptr<service::Work> submit(GatedJob& job, float value = 1);

  // Returns when the job is in this state for the core.
  void wait_state(const GatedJob& job, lanes::JobState state) LW_EXCLUDES(mutex_);
  lanes::JobStatus status(const GatedJob& job);
  // Every event that the worker posted so far.
  std::vector<lanes::Event> events() LW_EXCLUDES(mutex_);

  ManualClock& clock() { return clock_; }
  service::Worker& worker() { return *worker_; }

  static constexpr int64_t kCount = 16;

 private:
  void post(lanes::Event event) override LW_EXCLUDES(mutex_);

  ManualClock clock_;
  const std::unique_ptr<adaptor::Backend> backend_ = adaptor::open_backend("host", {}).value();
  std::unique_ptr<memory::MemoryBlock> pool_;
  std::unique_ptr<service::Worker> worker_;
  std::unique_ptr<lanes::CoreLoop> loop_;
  std::vector<std::shared_ptr<NodeGate>> gates_;
  uint64_t last_job_ = 0;
  Mutex mutex_;
  CondVar posted_;
  std::vector<lanes::Event> events_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::testing
