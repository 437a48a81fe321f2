#include "service/worker/jobs/ring_work.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/fault_point.h"
#include "base/limits.h"
#include "service/api/job_form.h"
#include "service/wire/layout.h"
#include "service/worker/jobs/worker_job.h"

namespace laneway::service {
namespace {

bool is_floating(lanes::DType dtype) { return dtype >= lanes::DType::float16; }

Error outside(const std::string& what, uint64_t offset, uint64_t bytes, uint64_t room) {
  return Error{ErrorCode::invalid_argument,
               what + " of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                   " does not lie in its segment of " + std::to_string(room) + " bytes"};
}

}  // namespace

void RingWork::start(const RingRequest& request, GraphHandle graph,
                     std::shared_ptr<memory::SharedMemory> segment) {
  request_ = request;
  graph_ = std::move(graph);
  segment_ = std::move(segment);
  ready_ = false;
  begun_ = false;
  abandons_ = 0;
  random_state_.reset();
  answered_ = false;
}

bool RingWork::is_journalled() const { return job_.journal.has_value(); }

Status RingWork::prepare() {
  fault_point("worker.submission_taken");
  if (request_.cancelled) {
    return Error{ErrorCode::cancelled, "it was cancelled before it ran"};
  }
  if (segment_ == nullptr) {
    return Error{ErrorCode::invalid_argument, "job '" + job_.name + "' has no segment numbered " +
                                                  std::to_string(request_.segment) +
                                                  " of this client: add it first"};
  }
  if (Status ready = is_iteration() ? prepare_iteration() : prepare_access(); !ready) return ready;
  ready_ = true;
  // What is still in flight has the journal until it has retired. To have begun says no more than
  // not to have: in both cases a successor runs it.
  if (job_.enqueued == 0) begin();
  return {};
}

void RingWork::begin() {
  if (begun_ || !is_journalled()) return;
  const RequestOrigin origin{.link = link_, .sequence = request_.sequence};
  if (is_iteration()) {
    job_.journal->begin(origin);
    begun_ = true;
    fault_point("worker.iteration_begun");
  } else if (is_write()) {
    job_.journal->begin_writing(origin);
    begun_ = true;
    fault_point("worker.write_begun");
  }
}

void RingWork::enter_commit() {
  if (!is_journalled()) return;
  begin();
  job_.journal->enter_commit();
  fault_point("worker.commit_entered");
}

void RingWork::enqueued() { random_state_ = changed_random_state(true); }

Status RingWork::check_block(uint64_t bytes) const {
  const auto room = static_cast<uint64_t>(segment_->size().count());
  const bool aligned = request_.offset % static_cast<uint64_t>(limits::kHostAlignment) == 0;
  if (aligned && request_.offset <= room && bytes <= room - request_.offset) return {};
  return outside("a block", request_.offset, bytes, room);
}

void RingWork::bind(const WorkerGraph& graph) {
  const lanes::Graph& captured = graph.torch->graph();
  inputs_.clear();
  outputs_.clear();
  binding_.copied.clear();
  uint64_t copied_bytes = limits::kHostAlignment;
  for (size_t i = 0; i < captured.inputs.size(); ++i) {
    const lanes::Value& value = captured.values[captured.inputs[i]];
    const uint64_t bytes = graph.info.inputs[i].bytes;
    const bool copied = value.kind == lanes::ValueKind::tensor && !is_floating(value.dtype);
    inputs_.push_back({.data = nullptr, .bytes = bytes});
    binding_.copied.push_back(copied);
    if (copied) copied_bytes += bytes + limits::kHostAlignment;
  }
  for (const wire::OutputInfo& output : graph.info.outputs) {
    outputs_.push_back({.data = nullptr, .bytes = output.bytes});
  }
  bytes_.resize(copied_bytes);
  binding_.layout = wire::block_layout(graph.info);
  binding_.graph = graph_;
}

bool RingWork::is_bound() const {
  return !binding_.graph.owner_before(graph_) && !graph_.owner_before(binding_.graph);
}

Status RingWork::prepare_iteration() {
  if (graph_ == nullptr) return no_such_graph(job_.name, request_.graph);
  if (!is_bound()) bind(*graph_);
  if (Status fits = check_block(binding_.layout.stride); !fits) return fits;
  const lanes::Graph& captured = graph_->torch->graph();
  std::byte* const from = block();
  const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
  constexpr uintptr_t kAlignment = limits::kHostAlignment;
  std::byte* next =
      bytes_.data() + ((address + kAlignment - 1) / kAlignment * kAlignment - address);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    std::byte* const place = from + binding_.layout.inputs[i];
    lanes::InputView& input = inputs_[i];
    if (captured.values[captured.inputs[i]].kind != lanes::ValueKind::tensor) {
      BlockNumber number{};
      std::memcpy(&number, place, sizeof(number));
      input.real = number.real;
      input.integer = number.integer;
    } else if (binding_.copied[i]) {
      std::memcpy(next, place, input.bytes);
      input.data = next;
      next += (input.bytes + kAlignment - 1) / kAlignment * kAlignment;
    } else {
      input.data = place;
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].data = from + binding_.layout.outputs[i];
  }
  return {};
}

Status RingWork::prepare_access() {
  const pipeline::ImageLayout& layout = job_.torch->layout();
  if (job_.phase == WorkerJob::Phase::waiting && job_.initial.empty() && !job_.is_away()) {
    return Error{ErrorCode::refused, "job '" + job_.name + "' is larger than the pool"};
  }
  if (Status fits = check_block(sizeof(StateHeader)); !fits) return fits;
  const uint64_t room = static_cast<uint64_t>(segment_->size().count()) - request_.offset;
  std::memcpy(&header_, block(), sizeof(header_));
  // A client can name a slot twice, but not more slots than there are: that bounds the list.
  if (header_.count > layout.slot_count()) {
    return Error{ErrorCode::invalid_argument, std::to_string(header_.count) +
                                                  " slots are named; job '" + job_.name + "' has " +
                                                  std::to_string(layout.slot_count())};
  }
  const uint64_t entry_bytes = uint64_t{header_.count} * sizeof(StateEntry);
  if (Status fits = check_block(sizeof(header_) + entry_bytes); !fits) return fits;
  entries_.resize(header_.count);
  if (entry_bytes > 0) std::memcpy(entries_.data(), block() + sizeof(header_), entry_bytes);
  for (const StateEntry& entry : entries_) {
    if (Status right = check_entry(entry, room); !right) return right;
  }
  if (header_.has_random > 1 ||
      (header_.has_random == 1 && (header_.random_offset > room ||
                                   limits::kRandomStateBytes > room - header_.random_offset))) {
    return outside("a random state", header_.random_offset, limits::kRandomStateBytes, room);
  }
  access_ = [this](const pipeline::SlotPlaces& places) {
    return is_write() ? write(places) : read(places);
  };
  return {};
}

Status RingWork::check_entry(const StateEntry& entry, uint64_t room) const {
  const pipeline::ImageLayout& layout = job_.torch->layout();
  if (entry.slot >= layout.slot_count()) {
    return Error{ErrorCode::invalid_argument,
                 "job '" + job_.name + "' has " + std::to_string(layout.slot_count()) +
                     " slots; there is none numbered " + std::to_string(entry.slot)};
  }
  if (entry.bytes != layout.slot(entry.slot).bytes) {
    return Error{ErrorCode::invalid_argument, "slot '" + layout.slot(entry.slot).name + "' has " +
                                                  std::to_string(layout.slot(entry.slot).bytes) +
                                                  " bytes, " + std::to_string(entry.bytes) +
                                                  " were given"};
  }
  if (entry.offset <= room && entry.bytes <= room - entry.offset) return {};
  return outside("slot '" + layout.slot(entry.slot).name + "'", entry.offset, entry.bytes, room);
}

Status RingWork::read(const pipeline::SlotPlaces& places) {
  for (const StateEntry& entry : entries_) {
    if (Status read = places.read(entry.slot, block() + entry.offset, entry.bytes); !read) {
      return read;
    }
  }
  if (header_.has_random == 0) return {};
  const std::vector<std::byte> state = job_.torch->random_state();
  if (state.size() != limits::kRandomStateBytes) {
    return Error{ErrorCode::internal, "torch's generator has an unexpected size"};
  }
  std::memcpy(block() + header_.random_offset, state.data(), state.size());
  return {};
}

// The random state first: it may be refused, and then nothing has changed.
Status RingWork::write(const pipeline::SlotPlaces& places) {
  if (header_.has_random != 0) {
    std::vector<std::byte> state(limits::kRandomStateBytes);
    std::memcpy(state.data(), block() + header_.random_offset, state.size());
    if (Status set = job_.torch->set_random_state(state); !set) return set;
  }
  for (const StateEntry& entry : entries_) {
    if (Status written = places.write(entry.slot, block() + entry.offset, entry.bytes); !written) {
      return written;
    }
  }
  fault_point("worker.state_written");
  return {};
}

std::vector<uint32_t> RingWork::slots_at_risk() const {
  std::vector<uint32_t> slots;
  if (is_owners_ || !is_write()) return slots;
  for (const StateEntry& entry : entries_) slots.push_back(entry.slot);
  return slots;
}

std::vector<std::byte> RingWork::changed_random_state(bool ok) const {
  const bool changed = is_iteration() ? graph_->torch->draws() : header_.has_random != 0;
  return ok && changed ? job_.torch->random_state() : std::vector<std::byte>();
}

void RingWork::complete(Status status, Duration took, bool spoiled) {
  if (answered_) return;
  answered_ = true;
  if (ready_) begin();
  ring_->answer(request_.sequence, status, took);
  fault_point("worker.slot_written");
  if (begun_ && spoiled) {
    job_.journal->spoil();
  } else if (begun_) {
    const auto random = random_state_ ? *random_state_ : changed_random_state(status.ok());
    job_.journal->end(random, is_iteration() && status.ok(), took);
    fault_point("worker.commit_written");
  }
  graph_.reset();
  segment_.reset();
  ring_->publish(request_.sequence);
  fault_point("worker.done_published");
}

}  // namespace laneway::service
