// CudaTorchDevice: a CUDA device as torch knows it. Thread-safe.
#pragma once

#include <memory>

#include "adaptor/device/torch_device.h"

namespace laneway::adaptor {

class CudaTorchDevice final : public TorchDevice {
 public:
  explicit CudaTorchDevice(c10::DeviceIndex index) : index_(index) {}

  c10::Device device() const override { return {c10::DeviceType::CUDA, index_}; }
  c10::DispatchKey key() const override { return c10::DispatchKey::CUDA; }
  // Kernels assert on a bad index, which ends every job of the process, so no trait of the CPU
  // holds.
  KernelTraits traits() const override { return {}; }
  std::unique_ptr<RandomState> make_random_state() const override;
  // Requires: `lane` is this device's and this thread has entered it; `random` was made by
  // make_random_state.
  Result<std::unique_ptr<Recording>> start_recording(DeviceLane& lane,
                                                     RandomState& random) const override;

 private:
  const c10::DeviceIndex index_;
};

}  // namespace laneway::adaptor
