#include "tests/service/synthetic/synthetic_backend.h"

#include <utility>

#include "adaptor/device/loaded_torch.h"
#include "adaptor/scope/core_shortage.h"
#include "adaptor/scope/lane_blocks.h"
#include "adaptor/scope/thread_team.h"
#include "tests/service/synthetic/synthetic_lane.h"

namespace laneway::testing {

Result<std::unique_ptr<adaptor::DeviceLane>> SyntheticBackend::make_lane() {
  return std::unique_ptr<adaptor::DeviceLane>(std::make_unique<SyntheticLane>());
}

Result<std::unique_ptr<memory::MemoryBlock>> SyntheticBackend::attach_pool(int descriptor,
                                                                           Bytes size) {
  return device_.attach_pool(descriptor, size);
}

size_t SyntheticBackend::escaped_within(const std::byte* base, Bytes size) {
  return adaptor::LaneBlocks::instance().escaped_within(base, size);
}

}  // namespace laneway::testing

namespace laneway::adaptor {

Result<std::unique_ptr<Backend>> open_backend(std::string_view name,
                                              const BackendOptions& options) {
  if (name != "host" || options.lane_sms != 0) {
    return Error{ErrorCode::invalid_argument, "device '" + std::string(name) +
                                                  "': the synthetic device is 'host', without "
                                                  "partitions"};
  }
  auto backend = std::make_unique<testing::SyntheticBackend>();
  backend->pool_access().set_bandwidth(options.copy_bandwidth_per_s);
  return std::unique_ptr<Backend>(std::move(backend));
}

TorchVersions loaded_torch() { return {}; }  // there is none

// The synthetic device computes without OpenMP, so no thread keeps a team.
void gather_thread_team(TimePoint /*now*/, uint32_t /*threads*/) {}
void thread_team_used(TimePoint /*now*/) {}
void end_thread_team() {}
void watch_cores(TimePoint /*now*/, uint32_t /*threads*/, bool /*others_compute*/) {}

}  // namespace laneway::adaptor
