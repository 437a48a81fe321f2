// CudaRandomState: the generator of a job that draws its random numbers on a CUDA device
// (adaptor/cuda/cuda_generator.h). One thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "adaptor/cuda/cuda_generator.h"
#include "adaptor/device/random_state.h"

namespace laneway::adaptor {

class CudaRandomState final : public RandomState {
 public:
  // A generator of device `index`, with torch's default seed until set().
  explicit CudaRandomState(c10::DeviceIndex index);

  Status set(std::span<const std::byte> state) override;
  std::vector<std::byte> get() const override;
  const at::Generator& generator() const override { return generator_; }
  void mark() override;
  void rewind() override;

  CudaGenerator& implementation() const;
  // Two int64 numbers on the device, from which recorded kernels read seed and offset. The first
  // call allocates them, outside of any lane; they live as long as this object.
  const at::Tensor& recorded_position();

 private:
  const at::Generator generator_;
  const c10::DeviceIndex index_;
  at::Tensor recorded_position_;
  std::optional<CudaGenerator::Position> mark_;
};

}  // namespace laneway::adaptor
