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
#include "service/api/job_form.h"
#include "service/client/block_pool.h"
#include "service/client/connection.h"
#include "service/client/submission.h"

namespace laneway::service {

class ClientJob {
 public:
  using SubmissionHandle = std::shared_ptr<Submission>;

  // The job that `options` (checked) describe.
  static Result<std::shared_ptr<ClientJob>> create(std::shared_ptr<Connection> connection,
                                                   const laneway_job_options& options,
                                                   std::span<const std::byte> graph,
                                                   const Clock& clock);
  static Result<std::shared_ptr<ClientJob>> attach(std::shared_ptr<Connection> connection,
                                                   const std::string& name, const Clock& clock);

  Result<uint32_t> add_graph(std::span<const std::byte> graph) LW_EXCLUDES(mutex_);
  Status drop_graph(uint32_t number) LW_EXCLUDES(mutex_);
  // Nothing when `timeout` passed (negative: no limit); *reason then says what it waits for.
  std::optional<Status> wait_placed(Duration timeout, std::string* reason);
  Result<std::string> report(bool with_tapes);
  JobForm form() LW_EXCLUDES(mutex_);
  // Whether it was closed here, or its service was.
  Status check_open() const;
  // Idempotent; see laneway_job_close.
  void close() LW_EXCLUDES(mutex_);
  // The service was closed here: nobody is asked.
  void abandon();

  Result<SubmissionHandle> submit(uint32_t graph, std::span<const laneway_input> inputs)
      LW_EXCLUDES(mutex_);
  // The same after checking that there is room for the outputs.
  Result<SubmissionHandle> submit(uint32_t graph, std::span<const laneway_input> inputs,
                                  std::span<const laneway_output> outputs) LW_EXCLUDES(mutex_);
  Result<SubmissionHandle> read_state(std::span<const laneway_slot_copy> copies,
                                      void* random_state);
  Result<SubmissionHandle> write_state(std::span<const laneway_slot_copy> copies,
                                       const void* random_state);

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
  Result<SubmissionHandle> submit(std::shared_ptr<const ClientGraph> graph,
                                  std::span<const laneway_input> inputs) LW_EXCLUDES(mutex_);
  // A block of the graph; results that nobody has fetched make room where they must.
  Result<BlockLease> take_block(const ClientGraph& graph) LW_EXCLUDES(mutex_);
  Result<StateBlock> state_block(std::span<const laneway_slot_copy> copies, bool random_state);
  Result<RingClient::Handle> enqueue(const RingClient::Request& request, BlockLease block);

  const Clock& clock_;
  const std::shared_ptr<Connection> connection_;
  const uint64_t id_;
  const uint32_t closing_link_;  // of an attached job: what ends with it
  const std::string name_;
  const wire::JobClass job_class_;
  const std::vector<wire::SlotSpec> slots_;
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
