#include "tests/service/synthetic/synthetic_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "adaptor/device/graph_admission.h"
#include "base/limits.h"

namespace laneway::testing {

SyntheticJob::SyntheticJob(pipeline::ImageLayout layout, int64_t alignment)
    : state_(std::make_unique<SyntheticState>(std::move(layout), alignment)) {}

Result<std::unique_ptr<SyntheticGraph>> SyntheticJob::load(lanes::Graph graph, Bytes most) {
  return SyntheticGraph::load(std::move(graph), *state_, most);
}

Result<std::unique_ptr<adaptor::DeviceGraph>> SyntheticJob::make_graph(
    std::span<const std::byte> graph, Bytes most) {
  auto decoded = adaptor::decode_job_graph(graph, layout().slots());
  if (!decoded) return decoded.error();
  auto loaded = load(std::move(decoded).value(), most);
  if (!loaded) return loaded.error();
  const SyntheticGraph& made = *loaded.value();
  if (Status fits = adaptor::check_room(made.graph(), made.memory(), most); !fits) {
    return fits.error();
  }
  return std::unique_ptr<adaptor::DeviceGraph>(std::move(loaded).value());
}

Status SyntheticJob::set_random_state(std::span<const std::byte> state) {
  if (state.size() != limits::kRandomStateBytes) {
    return Error{ErrorCode::invalid_argument, "a random state of " + std::to_string(state.size()) +
                                                  " bytes, not " +
                                                  std::to_string(limits::kRandomStateBytes)};
  }
  std::memcpy(&state_->random, state.data(), sizeof(state_->random));
  return {};
}

std::vector<std::byte> SyntheticJob::random_state() const {
  std::vector<std::byte> state(limits::kRandomStateBytes);
  std::memcpy(state.data(), &state_->random, sizeof(state_->random));
  return state;
}

}  // namespace laneway::testing

namespace laneway::adaptor {

Result<MadeJob> make_job(Backend& backend, std::vector<lanes::ImageSlot> slots,
                         std::span<const std::byte> first_graph, Bytes pool) {
  auto graph = decode_job_graph(first_graph, slots);
  if (!graph) return graph.error();
  const auto order = lanes::first_use_order(graph.value(), static_cast<uint32_t>(slots.size()));
  const int64_t alignment = backend.alignment();
  auto job = std::make_unique<testing::SyntheticJob>(pipeline::ImageLayout(slots, order, alignment),
                                                     alignment);
  const Bytes most = pool - std::max(job->layout().total(), Bytes(alignment));
  auto loaded = job->load(std::move(graph).value(), most);
  if (!loaded) return loaded.error();
  return MadeJob{.job = std::move(job), .graph = std::move(loaded).value()};
}

}  // namespace laneway::adaptor
