// What a ClientJob does through its ring: iterations and accesses to the state.
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "service/client/client_job.h"

namespace laneway::service {
namespace {

uint64_t aligned(uint64_t bytes) {
  constexpr auto kAlignment = static_cast<uint64_t>(limits::kHostAlignment);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void write_inputs(const ClientGraph& graph, std::span<const laneway_input> inputs,
                  std::byte* block) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::byte* to = block + graph.layout.inputs[i];
    if (graph.info.inputs[i].kind == wire::ValueKind::tensor) {
      if (inputs[i].bytes > 0) std::memcpy(to, inputs[i].data, inputs[i].bytes);
      continue;
    }
    const BlockNumber number{.real = inputs[i].real, .integer = inputs[i].integer};
    std::memcpy(to, &number, sizeof number);
  }
}

// How long one call may wait on its own. Then its caller gets control back, which may have a signal
// to handle.
constexpr Duration kAtOnce = milliseconds(50);

// The outcome of a request when it comes at once; else the request. Requires: `outputs` fit the
// graph, or are none.
JobFront::Submitted settle(Result<std::shared_ptr<Submission>> submitted,
                           std::span<const laneway_output> outputs) {
  if (!submitted) return submitted.error();
  Submission& submission = *submitted.value();
  const auto done = submission.wait(kAtOnce);
  if (!done) return std::shared_ptr<SubmissionFront>(std::move(submitted).value());
  if (!*done) return done->error();
  if (!outputs.empty()) submission.copy_fitting(outputs);
  return std::shared_ptr<SubmissionFront>();
}

}  // namespace

// A block for an access to the state, with its header and entries.
struct ClientJob::StateBlock {
  BlockLease block;
  std::vector<uint64_t> offsets;
  uint64_t random_offset = 0;
};

Result<std::shared_ptr<const ClientGraph>> ClientJob::find_graph(uint32_t number) {
  if (Status open = check_open(); !open) return open.error();
  MutexLock lock(mutex_);
  const auto found = graphs_.find(number);
  if (found == graphs_.end()) return no_such_graph(name_, number);
  return found->second;
}

JobFront::Submitted ClientJob::submit(uint32_t graph, std::span<const laneway_input> inputs) {
  auto found = find_graph(graph);
  if (!found) return found.error();
  if (Status fit = check_inputs(found.value()->info, inputs); !fit) return fit.error();
  auto queued = queue(std::move(found).value(), inputs);
  if (!queued) return queued.error();
  return std::shared_ptr<SubmissionFront>(std::move(queued).value());
}

JobFront::Submitted ClientJob::run(uint32_t graph, std::span<const laneway_input> inputs,
                                   std::span<const laneway_output> outputs) {
  auto found = find_graph(graph);
  if (!found) return found.error();
  if (Status fit = check_inputs(found.value()->info, inputs); !fit) return fit.error();
  if (Status fit = check_outputs(found.value()->info, outputs); !fit) return fit.error();
  return settle(queue(std::move(found).value(), inputs), outputs);
}

Result<std::shared_ptr<Submission>> ClientJob::queue(std::shared_ptr<const ClientGraph> graph,
                                                     std::span<const laneway_input> inputs) {
  auto block = take_block(*graph);
  if (!block) return block.error();
  write_inputs(*graph, inputs, block.value()->data());
  auto entry = enqueue({.kind = RingKind::iteration,
                        .graph = graph->info.number,
                        .segment = block.value()->segment->number(),
                        .offset = block.value()->offset},
                       block.value());
  if (!entry) return entry.error();
  auto submission = std::make_shared<Submission>(ring_, std::move(entry).value(),
                                                 std::move(block).value(), std::move(graph));
  MutexLock lock(mutex_);
  while (!unfetched_.empty() && unfetched_.front().expired()) unfetched_.pop_front();
  unfetched_.push_back(submission);
  return submission;
}

Result<BlockLease> ClientJob::take_block(const ClientGraph& graph) {
  auto block = graph.blocks->take();
  if (block || block.error().code != ErrorCode::busy) return block;
  // All are out, some of them perhaps only because nobody has fetched the results yet.
  std::deque<std::weak_ptr<Submission>> unfetched;
  {
    MutexLock lock(mutex_);
    unfetched.swap(unfetched_);
  }
  std::deque<std::weak_ptr<Submission>> still;
  for (const auto& weak : unfetched) {
    const std::shared_ptr<Submission> submission = weak.lock();
    if (submission != nullptr && !submission->spill()) still.push_back(weak);
  }
  {
    MutexLock lock(mutex_);
    unfetched_.insert(unfetched_.begin(), still.begin(), still.end());
  }
  return graph.blocks->take();
}

std::optional<Status> ClientJob::wait_for_room(Duration timeout) {
  if (Status open = check_open(); !open) return open;
  return ring_->wait_for_room(timeout);
}

Result<RingClient::Handle> ClientJob::enqueue(const RingClient::Request& request,
                                              BlockLease block) {
  auto entry = ring_->submit(request, std::move(block));
  if (entry || entry.error().code != ErrorCode::busy) return entry;
  return Error{ErrorCode::busy, "job '" + name_ + "' has " + entry.error().message};
}

Result<ClientJob::StateBlock> ClientJob::state_block(std::span<const laneway_slot_copy> copies,
                                                     bool random_state) {
  if (Status open = check_open(); !open) return open.error();
  if (Status fit = check_slots(name_, slots_, copies); !fit) return fit.error();
  StateBlock made;
  uint64_t next = aligned(sizeof(StateHeader) + copies.size() * sizeof(StateEntry));
  for (const laneway_slot_copy& copy : copies) {
    made.offsets.push_back(next);
    next += aligned(copy.bytes);
  }
  made.random_offset = next;
  if (random_state) next += aligned(limits::kRandomStateBytes);
  auto block = state_->take(next);
  if (!block) return block.error();
  made.block = std::move(block).value();
  const StateHeader header{.count = static_cast<uint32_t>(copies.size()),
                           .has_random = random_state ? 1u : 0u,
                           .random_offset = made.random_offset};
  std::byte* to = made.block->data();
  std::memcpy(to, &header, sizeof header);
  to += sizeof header;
  for (size_t i = 0; i < copies.size(); ++i, to += sizeof(StateEntry)) {
    const StateEntry entry{
        .slot = copies[i].slot, .reserved = 0, .bytes = copies[i].bytes, .offset = made.offsets[i]};
    std::memcpy(to, &entry, sizeof entry);
  }
  return made;
}

JobFront::Submitted ClientJob::read_state(std::span<const laneway_slot_copy> copies,
                                          void* random_state) {
  auto made = state_block(copies, random_state != nullptr);
  if (!made) return made.error();
  StateBlock& state = made.value();
  auto entry = enqueue({.kind = RingKind::read_state, .segment = state.block->segment->number()},
                       state.block);
  if (!entry) return entry.error();
  StateCopies wanted{.slots = {copies.begin(), copies.end()},
                     .offsets = std::move(state.offsets),
                     .random_state = random_state,
                     .random_offset = state.random_offset,
                     .job_closed = closed_};
  return settle(std::make_shared<Submission>(ring_, std::move(entry).value(),
                                             std::move(state.block), std::move(wanted)),
                {});
}

JobFront::Submitted ClientJob::write_state(std::span<const laneway_slot_copy> copies,
                                           const void* random_state) {
  auto made = state_block(copies, random_state != nullptr);
  if (!made) return made.error();
  StateBlock& state = made.value();
  std::byte* block = state.block->data();
  for (size_t i = 0; i < copies.size(); ++i) {
    if (copies[i].bytes > 0) std::memcpy(block + state.offsets[i], copies[i].data, copies[i].bytes);
  }
  if (random_state != nullptr) {
    std::memcpy(block + state.random_offset, random_state, limits::kRandomStateBytes);
  }
  auto entry = enqueue({.kind = RingKind::write_state, .segment = state.block->segment->number()},
                       state.block);
  if (!entry) return entry.error();
  return settle(std::make_shared<Submission>(ring_, std::move(entry).value(),
                                             std::move(state.block), std::optional<StateCopies>()),
                {});
}

}  // namespace laneway::service
