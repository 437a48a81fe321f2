#include "adaptor/cuda/cuda_random_state.h"

#include <ATen/ops/from_blob.h>

#include "base/check.h"

namespace laneway::adaptor {

CudaRandomState::CudaRandomState(const memory::CudaDevice& device, c10::DeviceIndex index,
                                 KeptMemory& kept)
    : device_(device),
      generator_(at::make_generator<CudaGenerator>(index)),
      index_(index),
      kept_(kept) {}

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
    position_memory_ = kept_.take(sizeof(*sent_));
    recorded_position_ = at::from_blob(
        position_memory_.data(), {2},
        at::TensorOptions(c10::Device(c10::DeviceType::CUDA, index_)).dtype(at::kLong));
  }
  return recorded_position_;
}

// The numbers travel in the calls: no memory of the CPU is read when the copy's turn comes. Most
// launches change one word.
Status CudaRandomState::send_position(CUstream stream) {
  const CudaGenerator::Position now = implementation().position();
  const std::array<uint32_t, 4> words = {
      static_cast<uint32_t>(now.seed), static_cast<uint32_t>(now.seed >> 32),
      static_cast<uint32_t>(now.offset), static_cast<uint32_t>(now.offset >> 32)};
  const auto address = reinterpret_cast<CUdeviceptr>(position_memory_.data());
  for (size_t word = 0; word < words.size(); ++word) {
    if (sent_ && (*sent_)[word] == words[word]) continue;
    Status sent =
        device_.context().check(device_.context().driver().cuMemsetD32Async(
                                    address + word * sizeof(uint32_t), words[word], 1, stream),
                                "sending a job's random state to the device");
    if (!sent) {
      sent_.reset();
      return sent;
    }
  }
  sent_ = words;
  return {};
}

}  // namespace laneway::adaptor
