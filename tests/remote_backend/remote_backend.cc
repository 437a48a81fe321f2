// The plugin: a Backend over the CPU as if it were another device.
#include <torch/headeronly/version.h>

#include <memory>
#include <string>
#include <utility>

#include "adaptor/device_plugin.h"
#include "adaptor/host_backend.h"
#include "adaptor/host_random_state.h"
#include "adaptor/lane_blocks.h"
#include "adaptor/torch_device.h"
#include "base/clock.h"
#include "base/version.h"
#include "memory/stream_pool_access.h"
#include "tests/remote_backend/remote_device.h"
#include "tests/remote_backend/remote_lane.h"

namespace laneway::testing {
namespace {

class RemoteTorchDevice final : public adaptor::TorchDevice {
 public:
  c10::Device device() const override { return c10::Device(c10::DeviceType::CPU); }
  c10::DispatchKey key() const override { return c10::DispatchKey::CPU; }
  bool is_host() const override { return false; }
  // They do, but not on the devices that this one stands for.
  bool operators_check_indices() const override { return false; }
  std::unique_ptr<adaptor::RandomState> make_random_state() const override {
    return std::make_unique<adaptor::HostRandomState>();
  }
  Result<std::unique_ptr<adaptor::Recording>> start_recording(
      adaptor::DeviceLane& /*lane*/, adaptor::RandomState& /*random*/) const override {
    return Error{ErrorCode::unsupported, "the CPU runs operators when they are called"};
  }
};

class RemoteBackend final : public adaptor::Backend {
 public:
  static Result<std::unique_ptr<adaptor::Backend>> open() {
    std::unique_ptr<RemoteBackend> made(new RemoteBackend);
    auto access = memory::StreamPoolAccess::create(made->device_);
    if (!access) return access.error();
    made->access_ = std::move(access).value();
    return std::unique_ptr<adaptor::Backend>(std::move(made));
  }

  memory::Device& device() override { return device_; }
  memory::PoolAccess& pool_access() override { return *access_; }
  adaptor::TorchDevice& torch() override { return torch_; }
  Result<std::unique_ptr<adaptor::DeviceLane>> make_lane() override {
    auto stream = device_.create_stream();
    if (!stream) return stream.error();
    return std::unique_ptr<adaptor::DeviceLane>(
        std::make_unique<RemoteLane>(device_, std::move(stream).value(), clock_));
  }
  std::string kernels() const override { return "cpu"; }
  Bytes free_memory() const override { return host_.free_memory(); }
  Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int /*descriptor*/,
                                                           Bytes /*size*/) override {
    return Error{ErrorCode::unsupported, "this device's memory belongs to one process"};
  }
  size_t escaped_within(const std::byte* base, Bytes size) override {
    return adaptor::LaneBlocks::instance().escaped_within(base, size);
  }
  Status health() const override { return {}; }

 private:
  RemoteBackend() = default;

  const SteadyClock clock_;
  adaptor::HostBackend host_;
  RemoteDevice device_;
  std::unique_ptr<memory::StreamPoolAccess> access_;
  RemoteTorchDevice torch_;
};

Result<std::unique_ptr<adaptor::Backend>> open_remote(uint32_t index,
                                                      const adaptor::BackendOptions& options) {
  if (index != 0 || options.lane_sms != 0) {
    return Error{ErrorCode::invalid_argument,
                 "device cuda:" + std::to_string(index) + " with lanes of " +
                     std::to_string(options.lane_sms) +
                     " multiprocessors: there is cuda:0 alone, without partitions"};
  }
  return RemoteBackend::open();
}

}  // namespace
}  // namespace laneway::testing

extern "C" __attribute__((visibility("default"))) const laneway::adaptor::DevicePlugin*
laneway_device_plugin() {
  static const laneway::adaptor::DevicePlugin plugin = {
      .version = laneway::adaptor::kDevicePluginVersion,
      .laneway_version = laneway::version(),
      .torch_version = TORCH_VERSION,
      .open = &laneway::testing::open_remote,
  };
  return &plugin;
}
