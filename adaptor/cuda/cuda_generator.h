// CudaGenerator: torch's CUDA generator, whose state has the form of the CPU's: graphs are captured
// on the CPU, where the state is 5,056 bytes, and may hold it as a value; journals and clients keep
// it in that form too. It is the state of a CPU generator that was just seeded with the CUDA
// generator's seed; the offset and a mark are in two fields that the CPU ignores (see
// cuda_generator.cc). One thread at a time.
#pragma once

#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace laneway::adaptor {

class CudaGenerator final : public at::CUDAGeneratorImpl {
 public:
  // A generator of device `index`, with torch's default seed.
  explicit CudaGenerator(c10::DeviceIndex index);

  // Sets the state from the bytes of state_bytes(), of torch.cuda.get_rng_state(), or of
  // torch.get_rng_state(): of the last only the seed is used, with offset 0. Any other bytes give
  // invalid_argument and leave the generator unchanged.
  Status set_state_bytes(std::span<const std::byte> state);
  std::vector<std::byte> state_bytes() const;

  // The two functions under torch's names, for laneway::random_state and
  // laneway::restore_random_state. They throw while draws are recorded.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  struct Position {
    uint64_t seed = 0;
    uint64_t offset = 0;
  };
  Position position() const;
  void set_position(Position position);

  // From begin_recording to end_recording, kernels are recorded (CUDA graphs): they read seed and
  // offset from `seed` and `offset` when they run. Requires: both are int64 tensors of one element
  // on the device; torch's current stream is the one that is recorded. Throws what torch throws.
  void begin_recording(const at::TensorBase& seed, const at::TensorBase& offset);
  // Returns by how much the recorded draws advance the offset.
  uint64_t end_recording();

 private:
  CudaGenerator(c10::DeviceIndex index, c10::intrusive_ptr<at::CUDAGeneratorState> state);
  void refuse_while_recording() const;
  void begin_draws(const at::TensorBase& seed, const at::TensorBase& offset);
  uint64_t end_draws();

  const c10::intrusive_ptr<at::CUDAGeneratorState> torch_state_;
  // The state of a CPU generator that was seeded with form_seed_.
  mutable std::vector<std::byte> form_;
  mutable uint64_t form_seed_ = 0;
  bool recording_ = false;
  std::optional<unsigned long long> capture_;  // CUDA's number of it, where torch asks for one
};

}  // namespace laneway::adaptor
