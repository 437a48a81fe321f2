// CudaGenerator: torch's CUDA generator, whose state has the form of the CPU's: graphs are captured
// on the CPU, where the state is 5,056 bytes, and may hold it as a value; journals and clients keep
// it in that form too. It is a state that a CPU generator takes: freshly seeded with our seed, with
// our offset in two fields that the CPU ignores (see cuda_generator.cc). One thread at a time.
#pragma once

#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace laneway::adaptor {

class CudaGenerator final : public at::CUDAGeneratorImpl {
 public:
  // Of device `index`, seeded with torch's default seed.
  explicit CudaGenerator(c10::DeviceIndex index);

  // Any of: what state_bytes() gave; torch.get_rng_state(), of which the seed counts, from the
  // beginning of its sequence; torch.cuda.get_rng_state(). invalid_argument for anything else, with
  // the generator as it was.
  Status set_state_bytes(std::span<const std::byte> state);
  std::vector<std::byte> state_bytes() const;

  // torch's names for the two, for laneway::random_state and laneway::restore_random_state. Throw
  // while draws are recorded.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  struct Position {
    uint64_t seed = 0;
    uint64_t offset = 0;
  };
  Position position() const;
  void set_position(Position position);

  // While kernels are written down (CUDA graphs): they read seed and offset from the device when
  // they run. `seed` and `offset` are int64 tensors of one element there.
  void begin_recording(const at::TensorBase& seed, const at::TensorBase& offset);
  // How far an iteration's draws advance the offset.
  uint64_t end_recording();

 private:
  CudaGenerator(c10::DeviceIndex index, c10::intrusive_ptr<at::CUDAGeneratorState> state);
  void refuse_while_recording() const;

  const c10::intrusive_ptr<at::CUDAGeneratorState> torch_state_;
  // A CPU generator's state for the seed that it is of.
  mutable std::vector<std::byte> form_;
  mutable uint64_t form_seed_ = 0;
};

}  // namespace laneway::adaptor
