// Submission: one request of a job as its client holds it: the entry in the ring, the block with
// its bytes, and how to take the results out. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "service/api/submission_front.h"
#include "service/client/block_pool.h"
#include "service/transport/block_layout.h"
#include "service/transport/ring_client.h"
#include "service/wire/graph_info.h"

namespace laneway::service {

// A graph that a client may run: what it looks like, and its blocks.
struct ClientGraph {
  wire::GraphInfo info;
  BlockLayout layout;
  std::shared_ptr<BlockPool> blocks;
};

// Where a read of the state copies what it has read; the caller keeps it until then, or until it
// closes the job.
struct StateCopies {
  std::vector<laneway_slot_copy> slots;
  std::vector<uint64_t> offsets;  // by slot of the list, in the block
  void* random_state = nullptr;
  uint64_t random_offset = 0;
  std::shared_ptr<const std::atomic<bool>> job_closed;
};

class Submission final : public SubmissionFront {
 public:
  Submission(std::shared_ptr<RingClient> ring, RingClient::Handle entry, BlockLease block,
             std::shared_ptr<const ClientGraph> graph)
      : ring_(std::move(ring)),
        entry_(std::move(entry)),
        graph_(std::move(graph)),
        block_(std::move(block)) {}
  // An access to the state; `copies` of a read.
  Submission(std::shared_ptr<RingClient> ring, RingClient::Handle entry, BlockLease block,
             std::optional<StateCopies> copies)
      : ring_(std::move(ring)),
        entry_(std::move(entry)),
        block_(std::move(block)),
        copies_(std::move(copies)) {}

  // The first wait() that returns success also copies out what a read of the state has read.
  std::optional<Status> wait(Duration timeout) override LW_EXCLUDES(mutex_);
  Status copy_outputs(std::span<const laneway_output> to) override LW_EXCLUDES(mutex_);
  // The same without a check. Requires: `to` fits the graph's outputs, see check_outputs.
  void copy_fitting(std::span<const laneway_output> to) LW_EXCLUDES(mutex_);
  Status cancel() override;
  // If it is done: puts its outputs elsewhere, so that its block is free. Whether it was.
  bool spill() LW_EXCLUDES(mutex_);

 private:
  const std::byte* outputs() const LW_REQUIRES(mutex_);

  const std::shared_ptr<RingClient> ring_;
  const RingClient::Handle entry_;
  const std::shared_ptr<const ClientGraph> graph_;
  Mutex mutex_;
  BlockLease block_ LW_GUARDED_BY(mutex_);
  std::vector<std::byte> spilled_ LW_GUARDED_BY(mutex_);
  std::optional<StateCopies> copies_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service
