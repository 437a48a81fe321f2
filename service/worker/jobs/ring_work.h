// RingWork: the work that a request in a ring stands for. Its inputs and outputs lie in a segment
// of the client's, which may change while they are used: whatever is checked (numbers, and tensors
// that may be indices) is copied first; the rest is read and written in place. Completing it writes
// the answer, ends it in the job's journal, and only then gives the slot back. One object serves
// many requests of a link, one after the other; several of them are at work while several
// iterations of the link are in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "service/transport/block_layout.h"
#include "service/transport/ring_server.h"
#include "service/worker/run/work.h"

namespace laneway::service {

struct WorkerJob;

class RingWork final : public Work {
 public:
  // The job outlives the work.
  // `owners`: the link's client is the job's owner, without whom there is no job.
  RingWork(WorkerJob& job, uint32_t link, bool owners, std::shared_ptr<RingServer> ring)
      : job_(job), link_(link), is_owners_(owners), ring_(std::move(ring)) {}

  // No request is at work in it. Belongs to whoever has set WorkerJob::running.
  bool is_free() const { return answered_; }
  // A request that was just taken. `graph` and `segment` are null when there are none of the
  // numbers that it names; prepare tells the client.
  void start(const RingRequest& request, GraphHandle graph,
             std::shared_ptr<memory::SharedMemory> segment);

  Status prepare() override;
  bool is_iteration() const override { return request_.kind == RingKind::iteration; }
  bool is_write() const { return request_.kind == RingKind::write_state; }
  bool writes_state() const override { return is_write(); }
  std::vector<uint32_t> slots_at_risk() const override;
  bool uses_job() const override { return true; }
  bool is_journalled() const override;
  void enter_commit() override;
  void enqueued() override;
  void complete(Status status, Duration took, bool spoiled) override;

 private:
  // Where the inputs and outputs of one graph lie in a block.
  struct Binding {
    std::weak_ptr<const WorkerGraph> graph;  // by identity: a number may be given again
    BlockLayout layout;
    std::vector<bool> copied;  // by input: a tensor that is copied before it is checked
  };

  bool is_bound() const;
  void bind(const WorkerGraph& graph);
  Status prepare_iteration();
  Status prepare_access();
  Status check_entry(const StateEntry& entry, uint64_t room) const;
  Status read(const pipeline::SlotPlaces& places);
  Status write(const pipeline::SlotPlaces& places);
  // The block begins inside of the segment and has room for `bytes`.
  Status check_block(uint64_t bytes) const;
  std::byte* block() const { return segment_->data() + request_.offset; }
  // In the journal, unless that was done.
  void begin();
  // As it is now, if this request changed it.
  std::vector<std::byte> changed_random_state(bool ok) const;

  WorkerJob& job_;
  const uint32_t link_;
  const bool is_owners_;
  const std::shared_ptr<RingServer> ring_;
  RingRequest request_;
  std::shared_ptr<memory::SharedMemory> segment_;
  Binding binding_;
  StateHeader header_{};
  std::vector<StateEntry> entries_;
  bool ready_ = false;  // prepared well: is to be begun in the journal
  bool begun_ = false;  // in the journal
  // As it was when the iteration was enqueued: the next one may have changed it since.
  std::optional<std::vector<std::byte>> random_state_;
  bool answered_ = true;
};

}  // namespace laneway::service
