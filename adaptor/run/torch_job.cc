#include "adaptor/run/torch_job.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "adaptor/device/graph_admission.h"
#include "adaptor/device/torch_device.h"
#include "adaptor/run/device_memory.h"
#include "adaptor/run/placement.h"
#include "adaptor/run/state_mirror.h"
#include "adaptor/run/torch_graph_runner.h"
#include "adaptor/scope/fork_gate.h"
#include "adaptor/scope/numeric_context.h"

namespace laneway::adaptor {
namespace {

Placement place(const lanes::Graph& graph, bool in_place,
                const std::function<bool(uint32_t slot)>& slot_may_be_on_host) {
  return in_place ? Placement::in_place() : Placement::of(graph, slot_may_be_on_host);
}

}  // namespace

struct TorchJob::State {
  State(TorchBackend& backend, pipeline::ImageLayout image_layout,
        std::span<const uint32_t> host_slots)
      : alignment(backend.alignment()),
        device(backend.torch()),
        layout(std::move(image_layout)),
        image(static_cast<uint64_t>(layout.total().count()), device.device()),
        in_place(backend.device().capabilities().pool_is_addressable),
        random(device.make_random_state()),
        mirror(layout, host_slots, backend.pool_access()) {}

  Result<std::unique_ptr<TorchGraph>> load(lanes::Graph graph, Bytes most);

  const int64_t alignment;
  const TorchDevice& device;
  pipeline::ImageLayout layout;
  BorrowedStorage image;
  const bool in_place;  // the CPU and the device reach the same memory
  const std::unique_ptr<RandomState> random;
  StateMirror mirror;
  uint64_t context_key = 0;
};

TorchJob::TorchJob(std::unique_ptr<State> state) : state_(std::move(state)) {}
TorchJob::~TorchJob() = default;

Result<TorchJob::Made> TorchJob::make(TorchBackend& backend, std::vector<lanes::ImageSlot> slots,
                                      std::span<const std::byte> first_graph, Bytes pool) {
  Result<lanes::Graph> graph = decode_job_graph(first_graph, slots);
  if (!graph) return graph.error();
  auto order = lanes::first_use_order(graph.value(), static_cast<uint32_t>(slots.size()));
  const bool in_place = backend.device().capabilities().pool_is_addressable;
  const Placement placement = place(graph.value(), in_place, [](uint32_t) { return true; });
  const std::vector<uint32_t>& host_slots = placement.host_slots();
  order = placed_last(order, host_slots);
  const int64_t alignment = backend.alignment();
  auto state =
      std::make_unique<State>(backend, pipeline::ImageLayout(slots, order, alignment), host_slots);
  state->context_key = adaptor::context_key(graph.value().context);
  const Bytes most = pool - std::max(state->layout.total(), Bytes(alignment));
  auto loaded = state->load(std::move(graph).value(), most);
  if (!loaded) return loaded.error();
  return Made{.job = std::unique_ptr<TorchJob>(new TorchJob(std::move(state))),
              .graph = std::move(loaded).value()};
}

Result<std::unique_ptr<DeviceGraph>> TorchJob::make_graph(std::span<const std::byte> graph,
                                                          Bytes most) {
  Result<lanes::Graph> decoded = decode_job_graph(graph, state_->layout.slots());
  if (!decoded) return decoded.error();
  if (adaptor::context_key(decoded.value().context) != state_->context_key) {
    return other_numeric_context(decoded.value());
  }
  auto loaded = state_->load(std::move(decoded).value(), most);
  if (!loaded) return loaded.error();
  const TorchGraph& made = *loaded.value();
  if (Status fits = check_room(made.graph(), made.memory(), most); !fits) return fits.error();
  return std::unique_ptr<DeviceGraph>(std::move(loaded).value());
}

// A graph that does not fit is loaded all the same: a job's first one is the core's to refuse.
Result<std::unique_ptr<TorchGraph>> TorchJob::State::load(lanes::Graph graph, Bytes most) {
  lanes::GraphMemory memory =
      lanes::predict_memory(graph, lanes::graph_lifetimes(graph), alignment);
  Placement placement = place(graph, in_place, [&](uint32_t slot) { return mirror.has(slot); });
  memory = with_transfers(std::move(memory), graph, placement, alignment);
  const Bytes probe_need = probe_need_of(memory, most, alignment);
  const TorchUse use;
  auto runner = TorchGraphRunner::load(
      std::move(graph), std::move(placement),
      {.device = device, .layout = layout, .image = image, .random = *random, .mirror = mirror});
  if (!runner) return runner.error();
  return std::make_unique<TorchGraph>(std::move(memory), probe_need, std::move(runner).value());
}

Status TorchJob::set_random_state(std::span<const std::byte> state) {
  return state_->random->set(state);
}

std::vector<std::byte> TorchJob::random_state() const { return state_->random->get(); }

void TorchJob::bind_image(std::byte* base) {
  state_->image.rebind(base);
  state_->mirror.bind(base);
}

void TorchJob::state_written() { state_->mirror.state_written(); }

const pipeline::ImageLayout& TorchJob::layout() const { return state_->layout; }

uint64_t TorchJob::context_key() const { return state_->context_key; }

Result<MadeJob> make_job(Backend& backend, std::vector<lanes::ImageSlot> slots,
                         std::span<const std::byte> first_graph, Bytes pool) {
  // Every backend that open_backend opens in a program with LibTorch is one of torch's.
  auto made =
      TorchJob::make(static_cast<TorchBackend&>(backend), std::move(slots), first_graph, pool);
  if (!made) return made.error();
  return MadeJob{.job = std::move(made.value().job), .graph = std::move(made.value().graph)};
}

}  // namespace laneway::adaptor
