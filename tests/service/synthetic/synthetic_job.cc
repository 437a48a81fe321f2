#include "tests/service/synthetic/synthetic_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "adaptor/device/graph_admission.h"
#include "base/limits.h"

namespace laneway::testing {

Result<std::shared_ptr<const SyntheticProgram>> program_of(std::span<const std::byte> bytes,
                                                           std::span<const lanes::ImageSlot> slots,
                                                           const adaptor::ProgramHandle& known,
                                                           int64_t alignment) {
  if (known != nullptr) return std::static_pointer_cast<const SyntheticProgram>(known);
  auto decoded = adaptor::decode_job_graph(bytes, slots);
  if (!decoded) return decoded.error();
  return SyntheticProgram::make(std::move(decoded).value(), alignment);
}

SyntheticJob::SyntheticJob(pipeline::ImageLayout layout, int64_t alignment)
    : state_(std::make_unique<SyntheticState>(std::move(layout), alignment)) {}

std::unique_ptr<SyntheticGraph> SyntheticJob::load(std::shared_ptr<const SyntheticProgram> program,
                                                   Bytes most) {
  return std::make_unique<SyntheticGraph>(std::move(program), *state_, most);
}

Result<std::unique_ptr<adaptor::DeviceGraph>> SyntheticJob::make_graph(
    std::span<const std::byte> graph, Bytes most, const adaptor::ProgramHandle& known) {
  auto program = program_of(graph, layout().slots(), known, state_->alignment);
  if (!program) return program.error();
  auto made = load(std::move(program).value(), most);
  if (Status fits = adaptor::check_room(made->graph(), made->memory(), most); !fits) {
    return fits.error();
  }
  return std::unique_ptr<adaptor::DeviceGraph>(std::move(made));
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
                         std::span<const std::byte> first_graph, Bytes pool,
                         const ProgramHandle& known) {
  const int64_t alignment = backend.alignment();
  auto program = testing::program_of(first_graph, slots, known, alignment);
  if (!program) return program.error();
  const auto order =
      lanes::first_use_order(program.value()->graph, static_cast<uint32_t>(slots.size()));
  auto job = std::make_unique<testing::SyntheticJob>(pipeline::ImageLayout(slots, order, alignment),
                                                     alignment);
  const Bytes most = pool - std::max(job->layout().total(), Bytes(alignment));
  auto graph = job->load(std::move(program).value(), most);
  return MadeJob{.job = std::move(job), .graph = std::move(graph)};
}

}  // namespace laneway::adaptor
