#include "tests/service/worker_process/process_client.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/slot_offsets.h"

namespace laneway::testing {

using memory::SharedMemory;
using service::Descriptor;

ProcessClient::ProcessClient(ProcessJob& job, uint32_t blocks)
    : job_(job), number_(static_cast<uint32_t>(job.links_.size() + 1)) {
  SharedMemory ring = SharedMemory::create("ring", Bytes(service::kRingBytes)).value();
  service::format_ring(*reinterpret_cast<service::RingMemory*>(ring.data()));
  int ends[2] = {-1, -1};
  LW_CHECK(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe for a test");
  ProcessJob::HeldLink& link = job.links_[number_];
  link.ring = Descriptor(::fcntl(ring.descriptor(), F_DUPFD_CLOEXEC, 0));
  link.wake = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  link.doorbell_write = Descriptor(ends[1]);
  ring_ = service::RingClient::attach(link.ring.duplicate().value(), link.wake.duplicate().value(),
                                      Descriptor(ends[0]), job.rig_.clock())
              .value();
  uint64_t stride = 0;
  for (const auto& [number, graph] : job.graphs_) {
    stride = std::max(stride, wire::block_layout(graph.info).stride);
  }
  state_block_ = stride * blocks;
  const uint64_t state = slot_offsets(job.message_.spec.slots).total;
  const uint64_t header =
      sizeof(service::StateHeader) + job.message_.spec.slots.size() * sizeof(service::StateEntry);
  const uint64_t room = state_block_ + header + state + limits::kRandomStateRoom + 128;
  segment_ =
      &link.segments
           .emplace(kSegment,
                    SharedMemory::create("segment", Bytes(static_cast<int64_t>(room))).value())
           .first->second;
  job.tell_link(number_);
  job.tell_segment(number_, kSegment);
  const auto answer = job.rig_.answer_to(link.request);
  const auto& reply = std::get<wire::from_worker::Reply>(answer);
  LW_CHECK(reply.ok, reply.message);
}

ProcessClient::Handle ProcessClient::submit(const service::RingClient::Request& request) {
  return ring_->submit(request, nullptr).value();
}

ProcessClient::Handle ProcessClient::submit(float value, uint32_t block, uint32_t graph) {
  const wire::GraphInfo& info = job_.graph(graph);
  const service::BlockLayout layout = wire::block_layout(info);
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    auto* floats =
        reinterpret_cast<float*>(segment_->data() + block * layout.stride + layout.inputs[i]);
    std::fill_n(floats, info.inputs[i].bytes / sizeof(float), value);
  }
  return submit({.kind = service::RingKind::iteration,
                 .graph = graph,
                 .segment = kSegment,
                 .offset = block * layout.stride});
}

Status ProcessClient::wait(const Handle& handle) {
  std::optional<Status> done;
  job_.rig_.until([&] { return (done = ring_->wait(handle, Duration())).has_value(); },
                  "the end of an iteration");
  return *done;
}

std::vector<float> ProcessClient::output(uint32_t block, uint32_t graph) const {
  const wire::GraphInfo& info = job_.graph(graph);
  const service::BlockLayout layout = wire::block_layout(info);
  std::vector<float> floats(info.outputs[0].bytes / sizeof(float));
  std::memcpy(floats.data(), segment_->data() + block * layout.stride + layout.outputs[0],
              info.outputs[0].bytes);
  return floats;
}

Result<std::vector<float>> ProcessClient::run(float value, uint32_t graph) {
  const Status done = wait(submit(value, 0, graph));
  if (!done) return done.error();
  return output(0, graph);
}

uint64_t ProcessClient::write_header(bool random) {
  const auto& slots = job_.message_.spec.slots;
  const SlotOffsets offsets = slot_offsets(slots);
  const uint64_t begin = sizeof(service::StateHeader) + slots.size() * sizeof(service::StateEntry);
  std::byte* const block = segment_->data() + state_block_;
  const service::StateHeader header{.count = static_cast<uint32_t>(slots.size()),
                                    .has_random = random ? 1u : 0u,
                                    .random_offset = begin + offsets.total};
  std::memcpy(block, &header, sizeof(header));
  for (uint32_t i = 0; i < slots.size(); ++i) {
    const service::StateEntry entry{
        .slot = i, .reserved = 0, .bytes = slots[i].bytes, .offset = begin + offsets.offsets[i]};
    std::memcpy(block + sizeof(header) + i * sizeof(entry), &entry, sizeof(entry));
  }
  return begin;
}

Result<std::vector<std::byte>> ProcessClient::read_state(std::vector<std::byte>* random) {
  const uint64_t begin = write_header(random != nullptr);
  const Status done = wait(submit({.kind = service::RingKind::read_state,
                                   .graph = 0,
                                   .segment = kSegment,
                                   .offset = state_block_}));
  if (!done) return done.error();
  const uint64_t total = slot_offsets(job_.message_.spec.slots).total;
  const std::byte* const from = segment_->data() + state_block_ + begin;
  if (random != nullptr) random->assign(from + total, from + total + limits::kRandomStateBytes);
  return std::vector<std::byte>(from, from + total);
}

Status ProcessClient::write_state(std::span<const std::byte> slots,
                                  std::span<const std::byte> random) {
  return wait(begin_write(slots, random));
}

ProcessClient::Handle ProcessClient::begin_write(std::span<const std::byte> slots,
                                                 std::span<const std::byte> random) {
  const uint64_t begin = write_header(!random.empty());
  std::byte* const to = segment_->data() + state_block_ + begin;
  std::memcpy(to, slots.data(), slots.size());
  if (!random.empty()) std::memcpy(to + slots.size(), random.data(), random.size());
  return submit({.kind = service::RingKind::write_state,
                 .graph = 0,
                 .segment = kSegment,
                 .offset = state_block_});
}

void ProcessClient::detach() {
  wire::to_worker::DropLink message;
  message.job = job_.message_.job;
  message.link = number_;
  forget();
  job_.rig_.ask(message);
}

void ProcessClient::forget() {
  job_.links_.erase(number_);
  segment_ = nullptr;
}

}  // namespace laneway::testing
