// CudaTorchDevice: a CUDA device as torch knows it. Thread-safe.
#pragma once

#include <memory>

#include "adaptor/cuda/kept_memory.h"
#include "adaptor/device/torch_device.h"
#include "memory/device/cuda/cuda_device.h"

namespace laneway::adaptor {

class CudaTorchDevice final : public TorchDevice {
 public:
  // `device`, which is torch's number `index`, and `kept` must outlive this object and the random
  // states that it makes.
  CudaTorchDevice(const memory::CudaDevice& device, c10::DeviceIndex index, KeptMemory& kept)
      : device_(device), index_(index), kept_(kept) {}

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
  const memory::CudaDevice& device_;
  const c10::DeviceIndex index_;
  KeptMemory& kept_;
};

}  // namespace laneway::adaptor
