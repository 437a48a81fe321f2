// CudaRandomState: the generator of a job that draws its random numbers on a CUDA device
// (adaptor/cuda/cuda_generator.h). One thread at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <cuda.h>

#include <array>
#include <optional>

#include "adaptor/cuda/cuda_generator.h"
#include "adaptor/cuda/kept_memory.h"
#include "adaptor/device/random_state.h"
#include "memory/device/cuda/cuda_device.h"

namespace laneway::adaptor {

class CudaRandomState final : public RandomState {
 public:
  // A generator of `device`, torch's number `index`, with torch's default seed until set(). Both
  // must outlive the state.
  CudaRandomState(const memory::CudaDevice& device, c10::DeviceIndex index, KeptMemory& kept);

  Status set(std::span<const std::byte> state) override;
  std::vector<std::byte> get() const override;
  const at::Generator& generator() const override { return generator_; }
  void mark() override;
  void rewind() override;

  CudaGenerator& implementation() const;
  // Two int64 numbers on the device, from which recorded kernels read seed and offset. The first
  // call takes memory for them, which throws what KeptMemory throws; they live as long as this
  // object.
  const at::Tensor& recorded_position();
  // Enqueues the generator's position for them. Requires: recorded_position() was called; sends on
  // another stream before are complete.
  Status send_position(CUstream stream);

 private:
  const memory::CudaDevice& device_;
  const at::Generator generator_;
  const c10::DeviceIndex index_;
  KeptMemory& kept_;
  KeptMemory::Block position_memory_;
  at::Tensor recorded_position_;
  std::optional<std::array<uint32_t, 4>> sent_;  // what the memory will hold then; empty: unknown
  std::optional<CudaGenerator::Position> mark_;
};

}  // namespace laneway::adaptor
