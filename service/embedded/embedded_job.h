// EmbeddedJob: a job of an EmbeddedService as laneway.h shows it: one handle of the job, made with
// it or attached to it. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "service/api/job_front.h"
#include "service/embedded/embedded.h"

namespace laneway::service {

class EmbeddedJob final : public JobFront {
 public:
  // Closing the handle of an attached job ends the handle's part alone.
  EmbeddedJob(std::shared_ptr<EmbeddedService> service, JobHandle job, bool attached);

  Result<JobForm> form() override;
  Result<uint32_t> add_graph(std::span<const std::byte> graph) override;
  Status drop_graph(uint32_t number) override;
  Status set(const JobChanges& changes) override;
  std::optional<Status> wait_placed(Duration timeout, std::string* reason) override;
  Result<std::string> report(bool with_tapes) override;
  void close() override;

  Submitted run(uint32_t graph, std::span<const laneway_input> inputs,
                std::span<const laneway_output> outputs) override;
  Submitted submit(uint32_t graph, std::span<const laneway_input> inputs) override;
  std::optional<Status> wait_for_room(Duration timeout) override;
  Submitted read_state(std::span<const laneway_slot_copy> copies, void* random_state) override;
  Submitted write_state(std::span<const laneway_slot_copy> copies,
                        const void* random_state) override;

 private:
  Worker& worker() { return service_->worker(); }
  // unavailable once the handle of an attached job was closed.
  Status check_open() const;
  // The graph of this number, if an iteration of it may be queued or run with these inputs.
  Result<GraphHandle> find_callable(uint32_t number, std::span<const laneway_input> inputs);
  Submitted queue(GraphHandle graph, std::span<const laneway_input> inputs);
  Submitted access_state(StateAccess access, bool writes);

  const std::shared_ptr<EmbeddedService> service_;
  const JobHandle job_;
  const std::vector<ImageSlot> slots_;
  const bool attached_;
  std::atomic<bool> detached_{false};
};

}  // namespace laneway::service
