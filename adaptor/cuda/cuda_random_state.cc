#include "adaptor/cuda/cuda_random_state.h"

#include <ATen/ops/empty.h>

#include "adaptor/cuda/cuda_lane_allocator.h"
#include "base/check.h"

namespace laneway::adaptor {

CudaRandomState::CudaRandomState(c10::DeviceIndex index)
    : generator_(at::make_generator<CudaGenerator>(index)), index_(index) {}

CudaGenerator& CudaRandomState::implementation() const {
  return *static_cast<CudaGenerator*>(generator_.unsafeGetGeneratorImpl());
}

Status CudaRandomState::set(std::span<const std::byte> state) {
  return implementation().set_state_bytes(state);
}

std::vector<std::byte> CudaRandomState::get() const { return implementation().state_bytes(); }

void CudaRandomState::mark() { mark_ = implementation().position(); }

void CudaRandomState::rewind() {
  LW_CHECK(mark_.has_value(), "rewind without mark");
  implementation().set_position(*mark_);
}

const at::Tensor& CudaRandomState::recorded_position() {
  if (!recorded_position_.defined()) {
    const OutsideLane outside;
    recorded_position_ = at::empty(
        {2}, at::TensorOptions(c10::Device(c10::DeviceType::CUDA, index_)).dtype(at::kLong));
  }
  return recorded_position_;
}

}  // namespace laneway::adaptor
