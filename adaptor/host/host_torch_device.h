// HostTorchDevice: the CPU as torch knows it. Thread-safe.
#pragma once

#include "adaptor/device/torch_device.h"

namespace laneway::adaptor {

class HostTorchDevice final : public TorchDevice {
 public:
  c10::Device device() const override { return c10::Device(c10::DeviceType::CPU); }
  c10::DispatchKey key() const override { return c10::DispatchKey::CPU; }
  KernelTraits traits() const override {
    return {.check_indices = true,
            .looking_waits = false,
            .lay_out_as_captured = true,
            .run_chains = true};
  }
  std::unique_ptr<RandomState> make_random_state() const override;
  Result<std::unique_ptr<Recording>> start_recording(DeviceLane& lane,
                                                     RandomState& random) const override;
};

}  // namespace laneway::adaptor
