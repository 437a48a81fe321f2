#include "adaptor/run/torch_job.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "adaptor/device/graph_admission.h"
#include "adaptor/device/torch_device.h"
#include "adaptor/run/device_memory.h"
#include "adaptor/run/placement.h"
#include "adaptor/run/state_mirror.h"
#include "adaptor/run/torch_graph_runner.h"
#include "adaptor/run/torch_program.h"
#include "adaptor/scope/fork_gate.h"
#include "adaptor/scope/numeric_context.h"

namespace laneway::adaptor {
namespace {

// A graph that is to be loaded: one that was decoded and checked now, or the program of an equal
// one.
struct Loadable {
  std::shared_ptr<const TorchProgram> known;
  std::optional<lanes::Graph> decoded;

  const lanes::Graph& graph() const { return known != nullptr ? known->resolved->graph : *decoded; }
};

Result<Loadable> loadable(std::span<const std::byte> bytes, std::span<const lanes::ImageSlot> slots,
                          const ProgramHandle& known) {
  // Every program of this backend is one of torch's.
  if (known != nullptr) {
    return Loadable{.known = std::static_pointer_cast<const TorchProgram>(known), .decoded = {}};
  }
  Result<lanes::Graph> decoded = decode_job_graph(bytes, slots);
  if (!decoded) return decoded.error();
  return Loadable{.known = nullptr, .decoded = std::move(decoded).value()};
}

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

  Result<std::unique_ptr<TorchGraph>> load(Loadable loadable, Bytes most);
  Result<std::unique_ptr<TorchGraph>> load_anew(lanes::Graph graph, Placement placement,
                                                Bytes most);
  JobParts parts() {
    return {
        .device = device, .layout = layout, .image = image, .random = *random, .mirror = mirror};
  }

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
                                      std::span<const std::byte> first_graph, Bytes pool,
                                      const ProgramHandle& known) {
  Result<Loadable> first = loadable(first_graph, slots, known);
  if (!first) return first.error();
  const lanes::Graph& graph = first.value().graph();
  auto order = lanes::first_use_order(graph, static_cast<uint32_t>(slots.size()));
  const bool in_place = backend.device().capabilities().pool_is_addressable;
  const Placement placement = place(graph, in_place, [](uint32_t) { return true; });
  const std::vector<uint32_t>& host_slots = placement.host_slots();
  order = placed_last(order, host_slots);
  const int64_t alignment = backend.alignment();
  auto state =
      std::make_unique<State>(backend, pipeline::ImageLayout(slots, order, alignment), host_slots);
  state->context_key = adaptor::context_key(graph.context);
  const Bytes most = pool - std::max(state->layout.total(), Bytes(alignment));
  auto loaded = state->load(std::move(first).value(), most);
  if (!loaded) return loaded.error();
  return Made{.job = std::unique_ptr<TorchJob>(new TorchJob(std::move(state))),
              .graph = std::move(loaded).value()};
}

Result<std::unique_ptr<DeviceGraph>> TorchJob::make_graph(std::span<const std::byte> graph,
                                                          Bytes most, const ProgramHandle& known) {
  Result<Loadable> further = loadable(graph, state_->layout.slots(), known);
  if (!further) return further.error();
  if (adaptor::context_key(further.value().graph().context) != state_->context_key) {
    return other_numeric_context(further.value().graph());
  }
  auto loaded = state_->load(std::move(further).value(), most);
  if (!loaded) return loaded.error();
  const TorchGraph& made = *loaded.value();
  if (Status fits = check_room(made.graph(), made.memory(), most); !fits) return fits.error();
  return std::unique_ptr<DeviceGraph>(std::move(loaded).value());
}

// A graph that does not fit is loaded all the same: a job's first one is the core's to refuse.
Result<std::unique_ptr<TorchGraph>> TorchJob::State::load(Loadable of, Bytes most) {
  Placement placement =
      place(of.graph(), in_place, [&](uint32_t slot) { return mirror.has(slot); });
  if (of.known == nullptr) return load_anew(*std::move(of.decoded), std::move(placement), most);
  const TorchProgram& known = *of.known;
  // Another first graph gave that job other slots on the CPU.
  if (placement != known.resolved->placement) {
    return load_anew(known.resolved->graph, std::move(placement), most);
  }
  const TorchUse use;
  auto runner = TorchGraphRunner::bind(known.resolved, parts());
  if (!runner) return runner.error();
  const Bytes probe_need = probe_need_of(known.memory, known.probe_height, most);
  return std::make_unique<TorchGraph>(std::move(of.known), probe_need, std::move(runner).value());
}

Result<std::unique_ptr<TorchGraph>> TorchJob::State::load_anew(lanes::Graph graph,
                                                               Placement placement, Bytes most) {
  auto program = std::make_shared<TorchProgram>();
  program->memory =
      with_transfers(lanes::predict_memory(graph, lanes::graph_lifetimes(graph), alignment), graph,
                     placement, alignment);
  program->probe_height = probe_height_of(program->memory, alignment);
  const TorchUse use;
  auto runner = TorchGraphRunner::load(std::move(graph), std::move(placement), parts());
  if (!runner) return runner.error();
  program->resolved = runner.value()->program().resolved;
  const Bytes probe_need = probe_need_of(program->memory, program->probe_height, most);
  return std::make_unique<TorchGraph>(std::move(program), probe_need, std::move(runner).value());
}

Status TorchJob::set_random_state(std::span<const std::byte> state) {
  return state_->random->set(state);
}

std::vector<std::byte> TorchJob::random_state() const { return state_->random->get(); }

void TorchJob::bind_image(std::byte* base) {
  state_->image.rebind(base);
  state_->mirror.bind(base);
}

void TorchJob::bind_arriving_image(std::byte* base, const std::byte* copy) {
  bind_image(base);
  if (copy != nullptr) state_->mirror.take(copy);
}

void TorchJob::state_written() { state_->mirror.state_written(); }

const pipeline::ImageLayout& TorchJob::layout() const { return state_->layout; }

uint64_t TorchJob::context_key() const { return state_->context_key; }

Result<MadeJob> make_job(Backend& backend, std::vector<lanes::ImageSlot> slots,
                         std::span<const std::byte> first_graph, Bytes pool,
                         const ProgramHandle& known) {
  // Every backend that open_backend opens in a program with LibTorch is one of torch's.
  auto made = TorchJob::make(static_cast<TorchBackend&>(backend), std::move(slots), first_graph,
                             pool, known);
  if (!made) return made.error();
  return MadeJob{.job = std::move(made.value().job), .graph = std::move(made.value().graph)};
}

}  // namespace laneway::adaptor
