#include "tests/remote_backend/remote_backend.h"

#include <memory>
#include <string>
#include <utility>

#include "adaptor/device/torch_backend.h"
#include "adaptor/device/torch_device.h"
#include "adaptor/host/host_backend.h"
#include "adaptor/host/host_random_state.h"
#include "adaptor/scope/lane_blocks.h"
#include "base/clock.h"
#include "memory/stream_pool_access.h"
#include "tests/remote_backend/remote_device.h"
#include "tests/remote_backend/remote_lane.h"
#include "tests/remote_backend/remote_recording.h"

namespace laneway::testing {
namespace {

class RemoteTorchDevice final : public adaptor::TorchDevice {
 public:
  c10::Device device() const override { return c10::Device(c10::DeviceType::CPU); }
  c10::DispatchKey key() const override { return c10::DispatchKey::CPU; }
  // Those of the devices that this one stands for, although its kernels are the CPU's.
  adaptor::KernelTraits traits() const override { return {}; }
  std::unique_ptr<adaptor::RandomState> make_random_state() const override {
    return std::make_unique<adaptor::HostRandomState>();
  }
  Result<std::unique_ptr<adaptor::Recording>> start_recording(
      adaptor::DeviceLane& lane, adaptor::RandomState& random) const override {
    return std::unique_ptr<adaptor::Recording>(
        std::make_unique<RemoteRecording>(static_cast<RemoteLane&>(lane), random));
  }
};

class RemoteBackend final : public adaptor::TorchBackend {
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
  Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int descriptor, Bytes size) override {
    return device_.attach_pool(descriptor, size);
  }
  size_t escaped_within(const std::byte* base, Bytes size) override {
    return adaptor::LaneBlocks::instance().escaped_within(base, size);
  }
  Status health() const override { return device_.loss()->health(); }

 private:
  RemoteBackend() = default;

  const SteadyClock clock_;
  adaptor::HostBackend host_;
  RemoteDevice device_;
  std::unique_ptr<memory::StreamPoolAccess> access_;
  RemoteTorchDevice torch_;
};

}  // namespace

Result<std::unique_ptr<adaptor::Backend>> open_remote_backend() { return RemoteBackend::open(); }

}  // namespace laneway::testing
