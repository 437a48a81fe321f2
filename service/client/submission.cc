#include "service/client/submission.h"

#include <cstring>

#include "base/limits.h"
#include "service/api/job_form.h"

namespace laneway::service {
namespace {

uint64_t outputs_begin(const ClientGraph& graph) {
  return graph.layout.outputs.empty() ? graph.layout.stride : graph.layout.outputs.front();
}

}  // namespace

std::optional<Status> Submission::wait(Duration timeout) {
  std::optional<Status> done = ring_->wait(entry_, timeout);
  if (!done || !*done) return done;
  MutexLock lock(mutex_);
  if (!copies_) return done;
  if (*copies_->job_closed) {
    return Status(Error{ErrorCode::cancelled, "the job was closed before its state was fetched"});
  }
  const std::byte* block = block_->data();
  for (size_t i = 0; i < copies_->slots.size(); ++i) {
    const laneway_slot_copy& slot = copies_->slots[i];
    if (slot.bytes > 0) std::memcpy(slot.data, block + copies_->offsets[i], slot.bytes);
  }
  if (copies_->random_state != nullptr) {
    std::memcpy(copies_->random_state, block + copies_->random_offset, limits::kRandomStateBytes);
  }
  copies_.reset();
  block_.reset();
  return done;
}

Status Submission::copy_outputs(std::span<const laneway_output> to) {
  if (graph_ == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "the request reads or writes the job's state and has no outputs: give no room "
                 "for any"};
  }
  if (Status fit = check_outputs(graph_->info, to); !fit) return fit;
  copy_fitting(to);
  return {};
}

void Submission::copy_fitting(std::span<const laneway_output> to) {
  MutexLock lock(mutex_);
  const std::byte* const from = outputs();
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].bytes == 0) continue;
    std::memcpy(to[i].data, from + (graph_->layout.outputs[i] - outputs_begin(*graph_)),
                to[i].bytes);
  }
}

Status Submission::cancel() {
  if (ring_->cancel(entry_)) return {};
  return Error{ErrorCode::refused, "the iteration has begun or is done; wait for it"};
}

const std::byte* Submission::outputs() const {
  return block_ != nullptr ? block_->data() + outputs_begin(*graph_) : spilled_.data();
}

bool Submission::spill() {
  const std::optional<Status> done = ring_->wait(entry_, Duration());
  MutexLock lock(mutex_);
  if (!done || graph_ == nullptr || block_ == nullptr) return false;
  if (*done) {
    const std::byte* begin = outputs();
    spilled_.assign(begin, begin + (graph_->layout.stride - outputs_begin(*graph_)));
  }
  block_.reset();
  return true;
}

}  // namespace laneway::service
