#include "service/worker/process/dry_run.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "adaptor/device/device_lane.h"
#include "adaptor/scope/lane_scope.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "lanes/run/executor.h"
#include "memory/lane_arena.h"
#include "service/worker/run/work.h"

namespace laneway::service {
namespace {

// What a lane must have beyond the estimate is not worth a second try here.
class Hooks final : public lanes::ExecutorHooks {
 public:
  void pause(size_t) override {}
  lanes::CommitDecision enter_commit_phase(size_t) override { return lanes::CommitDecision::go; }
};

// Zeros, of which those that nobody writes take no memory. Handed out piece by piece.
class Scratch {
 public:
  Scratch(Bytes size, int64_t alignment) : size_(size), alignment_(alignment) {
    void* mapped = ::mmap(nullptr, static_cast<size_t>(size.count()), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED) base_ = static_cast<std::byte*>(mapped);
  }
  ~Scratch() {
    if (base_ != nullptr) ::munmap(base_, static_cast<size_t>(size_.count()));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  bool valid() const { return base_ != nullptr; }
  std::byte* take(Bytes bytes) {
    std::byte* const taken = base_ + taken_.count();
    taken_ += bytes.aligned_up(alignment_);
    return taken;
  }

 private:
  const Bytes size_;
  const int64_t alignment_;
  std::byte* base_ = nullptr;
  Bytes taken_;
};

struct Sizes {
  Bytes image;
  Bytes lane;
  std::vector<Bytes> inputs;
  std::vector<Bytes> outputs;

  Bytes total(int64_t alignment) const {
    Bytes sum = image.aligned_up(alignment) + lane.aligned_up(alignment);
    for (const Bytes bytes : inputs) sum += bytes.aligned_up(alignment);
    for (const Bytes bytes : outputs) sum += bytes.aligned_up(alignment);
    return sum;
  }
};

Sizes sizes_of(const adaptor::DeviceJob& job, const adaptor::DeviceGraph& graph) {
  const lanes::Graph& captured = graph.graph();
  Sizes sizes{
      .image = job.layout().total(), .lane = graph.probe_need(), .inputs = {}, .outputs = {}};
  for (const lanes::ValueIndex input : captured.inputs) {
    const lanes::Value& value = captured.values[input];
    const bool tensor = value.kind == lanes::ValueKind::tensor;
    sizes.inputs.emplace_back(tensor ? static_cast<int64_t>(captured.storages[value.storage].bytes)
                                     : 0);
  }
  for (const lanes::ValueIndex output : captured.outputs) {
    sizes.outputs.emplace_back(static_cast<int64_t>(output_bytes(captured, output)));
  }
  return sizes;
}

// A device's lane and the memory that it allocates in.
struct Lane {
  Lane(std::unique_ptr<adaptor::DeviceLane> of_device, int64_t alignment)
      : device(std::move(of_device)), arena(alignment) {}

  std::unique_ptr<adaptor::DeviceLane> device;
  memory::LaneArena arena;
};

// Whether nothing is left in use of the lane's memory.
bool run(Lane& lane, adaptor::DeviceGraph& graph, const Sizes& sizes, Scratch& scratch,
         lanes::ControlWord& word) {
  std::vector<lanes::InputView> inputs;
  for (const Bytes bytes : sizes.inputs) {
    inputs.push_back({.data = scratch.take(bytes), .bytes = static_cast<uint64_t>(bytes.count())});
  }
  std::vector<lanes::OutputView> outputs;
  for (const Bytes bytes : sizes.outputs) {
    outputs.push_back({.data = scratch.take(bytes), .bytes = static_cast<uint64_t>(bytes.count())});
  }
  graph.allow_replay(false);
  const adaptor::LaneScope scope(*lane.device, lane.arena, graph.graph().context);
  lane.arena.begin_probe();
  Hooks hooks;
  // An iteration over zeros may fail; what it came through is warm.
  (void)lanes::Executor(graph.runner(), word, hooks).run(inputs, outputs);
  (void)lane.device->drain();
  return lane.arena.abandon().live_count == 0;
}

}  // namespace

void dry_run(adaptor::Backend& backend, adaptor::DeviceJob& job, adaptor::DeviceGraph& graph,
             Bytes most, lanes::ControlWord& word) {
  if (!backend.device().capabilities().pool_is_addressable) return;
  const int64_t alignment = std::max<int64_t>(backend.alignment(), limits::kHostAlignment);
  const Sizes sizes = sizes_of(job, graph);
  const Bytes total = sizes.total(alignment);
  if (total > most) return;
  auto device = backend.make_lane();
  auto scratch = std::make_unique<Scratch>(total, alignment);
  if (!device || !scratch->valid()) return;
  auto lane = std::make_unique<Lane>(std::move(device).value(), backend.alignment());
  const std::vector<std::byte> random = job.random_state();
  job.bind_image(scratch->take(sizes.image));
  lane->arena.bind(scratch->take(sizes.lane), sizes.lane);
  const bool clean = run(*lane, graph, sizes, *scratch, word);
  job.bind_image(nullptr);
  (void)job.set_random_state(random);  // its own: it fits
  if (clean) return;
  log_warning("graph '" + printable(graph.graph().name) + "' keeps memory between iterations");
  // Somebody still uses it, for as long as the process lives.
  (void)lane.release();
  (void)scratch.release();
}

}  // namespace laneway::service
