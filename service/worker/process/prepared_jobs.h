// PreparedJobs: what a standby makes ready before it is needed, told by the broker: jobs and their
// graphs, decoded, checked and resolved; a dry run of each graph; the pool's pages. A thread of the
// lowest priority does it, so that nothing that runs notices. Nothing here depends on the journal,
// and nothing decides anything: what is not prepared is made when it is asked for.
//
// Before stop all functions but take_job and take_graph may be called by one thread; afterwards
// take_job, take_graph and clear may, by one thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adaptor/device/backend.h"
#include "adaptor/device/device_job.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/image_slot.h"
#include "lanes/run/control_word.h"
#include "memory/device/device.h"
#include "service/transport/descriptor.h"
#include "service/wire/standby_messages.h"
#include "service/worker/common/task_thread.h"
#include "service/worker/run/graph_cache.h"

namespace laneway::service {

class PreparedJobs {
 public:
  // Called on the preparing thread.
  using Answer = std::function<void(const wire::from_standby::Prepared&)>;

  // What is resolved is known to `graphs` from then on. `usable`: what jobs can have of the pool.
  // `pool` may be null: it has no pages to be mapped. All must outlive the object.
  PreparedJobs(adaptor::Backend& backend, GraphCache& graphs, Bytes usable,
               const memory::MemoryBlock* pool)
      : backend_(backend), graphs_(graphs), usable_(usable), pool_(pool) {}

  // A broker that names all jobs anew.
  void begin_anew();
  // Done in the order of the calls.
  void handle(wire::to_standby::Any message, std::vector<Descriptor> fds, Answer answer);

  // The worker is activated: nothing further is begun, and what is under way ends soon.
  void stop();
  // After stop: false when what was under way has not ended within that time.
  bool wait_stopped(Duration most);

  // The job, when it was prepared from exactly this. Its random state is torch's default.
  std::optional<GraphCache::Job> take_job(JobId id, const std::vector<ImageSlot>& slots,
                                          std::span<const std::byte> graph);
  // The graph of a job that was taken, when it was prepared from exactly this.
  std::optional<GraphCache::Graph> take_graph(JobId id, uint32_t number,
                                              std::span<const std::byte> graph);
  // Drops what nobody took.
  void clear() { jobs_.clear(); }

 private:
  struct Graph {
    std::vector<std::byte> bytes;
    GraphCache::Graph graph;
  };
  struct Job {
    bool named = true;  // by the present broker
    std::vector<ImageSlot> slots;
    Graph first;
    std::map<uint32_t, Graph> further;
    // Behind its graphs, which use it.
    std::unique_ptr<adaptor::DeviceJob> job;
  };

  void post(std::function<void()> task);
  void lower_priority();
  // Whether it is there now.
  bool prepare(const wire::to_standby::PrepareJob& message, std::vector<Descriptor>& fds);
  bool prepare(const wire::to_standby::PrepareGraph& message, std::vector<Descriptor>& fds);
  void on(const wire::to_standby::ForgetGraph& message);
  void on(const wire::to_standby::ForgetJob& message);
  void on(const wire::to_standby::Settle& message);
  void warm(Job& job, adaptor::DeviceGraph& graph);
  void map_pages() const;

  adaptor::Backend& backend_;
  GraphCache& graphs_;
  const Bytes usable_;
  const memory::MemoryBlock* const pool_;
  std::atomic<bool> stopped_{false};
  std::atomic<pid_t> thread_id_{0};  // of the preparing thread, once it has a lower priority
  lanes::ControlWord word_;          // of the dry run that is under way
  std::map<JobId, Job> jobs_;        // the preparing thread's until stop, then the taker's
  TaskThread thread_;                // last: ends before all else
};

}  // namespace laneway::service
