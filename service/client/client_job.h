// ClientJob: a job of a service as its client holds it: its form, its link to the worker (ring and
// segments), and the requests about it. Iterations and state go through the ring and touch no
// socket; the rest asks the broker. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "service/api/job_front.h"
#include "service/api/job_request.h"
#include "service/client/block_pool.h"
#include "service/client/connection.h"
#include "service/client/submission.h"

namespace laneway::service {

class ClientJob final : public JobFront {
 public:
  static Result<std::shared_ptr<ClientJob>> create(std::shared_ptr<Connection> connection,
                                                   const JobRequest& request,
                                                   std::span<const std::byte> graph,
                                                   const Clock& clock);
  static Result<std::shared_ptr<ClientJob>> attach(std::shared_ptr<Connection> connection,
                                                   const std::string& name, const Clock& clock);

  Result<JobForm> form() override LW_EXCLUDES(mutex_);
  Result<uint32_t> add_graph(std::span<const std::byte> graph) override LW_EXCLUDES(mutex_);
  Status drop_graph(uint32_t number) override LW_EXCLUDES(mutex_);
  Status set(const JobChanges& changes) override;
  std::optional<Status> wait_placed(Duration timeout, std::string* reason) override;
  Result<std::string> report(bool with_tapes) override;
  void close() override LW_EXCLUDES(mutex_);
  // The service was closed here: the job ends without a request to the broker.
  void abandon();

  Submitted run(uint32_t graph, std::span<const laneway_input> inputs,
                std::span<const laneway_output> outputs) override LW_EXCLUDES(mutex_);
  Submitted submit(uint32_t graph, std::span<const laneway_input> inputs) override
      LW_EXCLUDES(mutex_);
  std::optional<Status> wait_for_room(Duration timeout) override;
  Submitted read_state(std::span<const laneway_slot_copy> copies, void* random_state) override;
  Submitted write_state(std::span<const laneway_slot_copy> copies,
                        const void* random_state) override;

 private:
  // What a reply says of a job: its number there, the link's, and the link's descriptors.
  struct Made {
    uint64_t job = 0;
    uint32_t link = 0;
    bool attached = false;
    JobForm form;
    std::vector<Descriptor> fds;
  };
  struct StateBlock;

  static Result<std::shared_ptr<ClientJob>> make(std::shared_ptr<Connection> connection, Made made,
                                                 const Clock& clock);
  ClientJob(std::shared_ptr<Connection> connection, Made made, std::shared_ptr<RingClient> ring,
            const Clock& clock);

  void know(wire::GraphInfo info) LW_EXCLUDES(mutex_);
  Result<std::shared_ptr<const ClientGraph>> find_graph(uint32_t number) LW_EXCLUDES(mutex_);
  // unavailable once the job was closed here, or its service was.
  Status check_open() const;
  // Requires: `inputs` fit the graph.
  Result<std::shared_ptr<Submission>> queue(std::shared_ptr<const ClientGraph> graph,
                                            std::span<const laneway_input> inputs)
      LW_EXCLUDES(mutex_);
  // A block of the graph; results that nobody has fetched make room where they must.
  Result<BlockLease> take_block(const ClientGraph& graph) LW_EXCLUDES(mutex_);
  Result<StateBlock> state_block(std::span<const laneway_slot_copy> copies, bool random_state);
  Result<RingClient::Handle> enqueue(const RingClient::Request& request, BlockLease block);

  const Clock& clock_;
  const std::shared_ptr<Connection> connection_;
  const uint64_t id_;
  const uint32_t closing_link_;  // of an attached job: what ends with it
  const std::string name_;
  const JobClass job_class_;
  const std::vector<ImageSlot> slots_;
  const std::shared_ptr<RingClient> ring_;
  const std::shared_ptr<JobLink> link_;
  const std::shared_ptr<StatePool> state_;
  const std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> placed_{false};

  Mutex mutex_;
  std::map<uint32_t, std::shared_ptr<const ClientGraph>> graphs_ LW_GUARDED_BY(mutex_);
  // In order of submission, for take_block.
  std::deque<std::weak_ptr<Submission>> unfetched_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service
