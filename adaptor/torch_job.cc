#include "adaptor/torch_job.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "adaptor/numeric_context.h"
#include "adaptor/random_state.h"
#include "adaptor/torch_graph_runner.h"
#include "base/limits.h"
#include "lanes/graph/graph_check.h"
#include "lanes/graph/graph_codec.h"
#include "memory/planner.h"

namespace laneway::adaptor {
namespace {

// A probe meets allocations inside operators that capture cannot see (up to 2 % of the peak for
// the models measured, and some tens of KiB for tiny ones). Too little only costs a second try.
Bytes with_probe_slack(Bytes height) {
  return (height + Bytes(height.count() / 8) + kib(256)).aligned_up(limits::kHostAlignment);
}

}  // namespace

struct TorchJob::State {
  struct JobGraph {
    lanes::GraphMemory memory;
    Bytes probe_need;
    std::unique_ptr<TorchGraphRunner> runner;
  };

  explicit State(pipeline::ImageLayout image_layout)
      : layout(std::move(image_layout)), image(static_cast<uint64_t>(layout.total().count())) {
    graphs.reserve(limits::kMaxGraphsPerJob);  // never moved: others read while one is added
  }

  Result<uint32_t> add(lanes::Graph graph, Bytes most);

  pipeline::ImageLayout layout;
  BorrowedStorage image;
  RandomState random;
  std::vector<JobGraph> graphs;
  std::atomic<uint32_t> graph_count{0};  // published graphs
};

namespace {

Result<lanes::Graph> decode_and_check(std::span<const std::byte> bytes,
                                      std::span<const lanes::ImageSlot> slots) {
  Result<lanes::Graph> decoded = lanes::decode_graph(bytes);
  if (!decoded) return decoded;
  if (Status valid = lanes::check_graph(decoded.value()); !valid) return valid.error();
  if (Status fits = lanes::check_against_image(decoded.value(), slots); !fits) return fits.error();
  return decoded;
}

}  // namespace

TorchJob::TorchJob(std::unique_ptr<State> state) : state_(std::move(state)) {}
TorchJob::~TorchJob() = default;

Result<std::unique_ptr<TorchJob>> TorchJob::make(std::vector<lanes::ImageSlot> slots,
                                                 std::span<const std::byte> first_graph,
                                                 Bytes pool) {
  Result<lanes::Graph> graph = decode_and_check(first_graph, slots);
  if (!graph) return graph.error();
  const auto order = lanes::first_use_order(graph.value(), static_cast<uint32_t>(slots.size()));
  auto state = std::make_unique<State>(pipeline::ImageLayout(slots, order, limits::kHostAlignment));
  const Bytes most = pool - std::max(state->layout.total(), Bytes(limits::kHostAlignment));
  Result<uint32_t> added = state->add(std::move(graph).value(), most);
  if (!added) return added.error();
  return std::unique_ptr<TorchJob>(new TorchJob(std::move(state)));
}

Result<uint32_t> TorchJob::add_graph(std::span<const std::byte> graph, Bytes most) {
  if (state_->graphs.size() >= limits::kMaxGraphsPerJob) {
    return Error{ErrorCode::refused, "the job has " + std::to_string(state_->graphs.size()) +
                                         " graphs already, which is the limit"};
  }
  Result<lanes::Graph> decoded = decode_and_check(graph, state_->layout.slots());
  if (!decoded) return decoded.error();
  return state_->add(std::move(decoded).value(), most);
}

Result<uint32_t> TorchJob::State::add(lanes::Graph graph, Bytes most) {
  JobGraph made;
  made.memory = lanes::predict_memory(graph, lanes::graph_lifetimes(graph), limits::kHostAlignment);
  made.probe_need =
      with_probe_slack(memory::simulate_best_fit(made.memory.tape, limits::kHostAlignment));
  const bool fits = made.memory.peak <= most;
  // A job whose first graph does not fit is the core's to refuse.
  if (!fits && !graphs.empty()) {
    return Error{ErrorCode::out_of_memory,
                 "graph '" + graph.name + "' needs " + format_bytes(made.memory.peak) +
                     " while it runs; the pool has " + format_bytes(most) +
                     " beside the job's image: open the service with a larger pool"};
  }
  if (fits) made.probe_need = std::min(made.probe_need, most);
  auto runner = TorchGraphRunner::load(std::move(graph), layout, image, random);
  if (!runner) return runner.error();
  made.runner = std::move(runner).value();
  graphs.push_back(std::move(made));
  const auto index = static_cast<uint32_t>(graphs.size() - 1);
  graph_count.store(index + 1, std::memory_order_release);
  return index;
}

Status TorchJob::set_random_state(std::span<const std::byte> state) {
  return state_->random.set(state);
}

std::vector<std::byte> TorchJob::random_state() const { return state_->random.get(); }

void TorchJob::bind_image(std::byte* base) { state_->image.rebind(base); }

const pipeline::ImageLayout& TorchJob::layout() const { return state_->layout; }

uint32_t TorchJob::graph_count() const {
  return state_->graph_count.load(std::memory_order_acquire);
}

const lanes::Graph& TorchJob::graph(uint32_t index) const {
  LW_CHECK(index < graph_count(), "the job has no such graph");
  return state_->graphs.data()[index].runner->graph();
}

const lanes::GraphMemory& TorchJob::memory(uint32_t index) const {
  return state_->graphs.at(index).memory;
}

Bytes TorchJob::probe_need(uint32_t index) const { return state_->graphs.at(index).probe_need; }

lanes::GraphRunner& TorchJob::runner(uint32_t index) { return *state_->graphs.at(index).runner; }

uint64_t TorchJob::context_key() const { return adaptor::context_key(graph(0).context); }

}  // namespace laneway::adaptor
