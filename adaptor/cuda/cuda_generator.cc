#include "adaptor/cuda/cuda_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <torch/headeronly/version.h>

#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace laneway::adaptor {
namespace {

// torch.cuda.get_rng_state(): seed and offset.
constexpr size_t kCudaStateBytes = 16;
// A CPU generator's state begins with its seed. Of the second normal number that older versions of
// torch kept, only one field is still read; the two others (normal_x, normal_rho) are ours.
constexpr size_t kSeedAt = 0;
constexpr size_t kOffsetAt = 5'016;
constexpr size_t kMarkAt = 5'032;
constexpr uint64_t kMark = 0x6164'7563'2d77'6c00;  // "lw-cuda": no normal number of an old torch
constexpr uint64_t kOffsetUnit = 4;                // torch's philox engine gives four at a time

uint64_t word_at(std::span<const std::byte> bytes, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

void put_word(std::span<std::byte> bytes, size_t offset, uint64_t word) {
  std::memcpy(bytes.data() + offset, &word, sizeof(word));
}

at::Tensor bytes_tensor(std::span<const std::byte> bytes) {
  at::Tensor made = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(made.mutable_data_ptr(), bytes.data(), bytes.size());
  return made;
}

std::vector<std::byte> cpu_state(uint64_t seed) {
  const at::Tensor state = at::detail::createCPUGenerator(seed).get_state();
  std::vector<std::byte> bytes(state.nbytes());
  std::memcpy(bytes.data(), state.const_data_ptr(), bytes.size());
  LW_CHECK(bytes.size() == limits::kRandomStateBytes,
           "torch's CPU generator has a state of another size");
  return bytes;
}

}  // namespace

CudaGenerator::CudaGenerator(c10::DeviceIndex index)
    : CudaGenerator(index, c10::make_intrusive<at::CUDAGeneratorState>()) {}

CudaGenerator::CudaGenerator(c10::DeviceIndex index,
                             c10::intrusive_ptr<at::CUDAGeneratorState> state)
    : at::CUDAGeneratorImpl(index, state), torch_state_(std::move(state)) {}

CudaGenerator::Position CudaGenerator::position() const {
  return {torch_state_->seed_, torch_state_->philox_offset_per_thread_};
}

void CudaGenerator::set_position(Position position) {
  torch_state_->seed_ = position.seed;
  torch_state_->philox_offset_per_thread_ = position.offset;
}

Status CudaGenerator::set_state_bytes(std::span<const std::byte> state) {
  Position position;
  if (state.size() == kCudaStateBytes) {
    position = {word_at(state, 0), word_at(state, 8)};
  } else {
    try {
      at::detail::createCPUGenerator().set_state(bytes_tensor(state));
    } catch (const std::exception& error) {
      return Error{ErrorCode::invalid_argument,
                   "the random state of " + std::to_string(state.size()) +
                       " bytes is neither one of torch.get_rng_state() nor of "
                       "torch.cuda.get_rng_state(): " +
                       error.what()};
    }
    position.seed = word_at(state, kSeedAt);
    if (word_at(state, kMarkAt) == kMark) position.offset = word_at(state, kOffsetAt);
  }
  if (position.offset % kOffsetUnit != 0) {
    return Error{ErrorCode::invalid_argument,
                 "the random state has the offset " + std::to_string(position.offset) +
                     ", which is no multiple of " + std::to_string(kOffsetUnit)};
  }
  set_position(position);
  return {};
}

std::vector<std::byte> CudaGenerator::state_bytes() const {
  const Position now = position();
  if (form_.empty() || form_seed_ != now.seed) {
    form_ = cpu_state(now.seed);
    form_seed_ = now.seed;
  }
  std::vector<std::byte> bytes = form_;
  put_word(bytes, kOffsetAt, now.offset);
  put_word(bytes, kMarkAt, kMark);
  return bytes;
}

// What is done here happens once, and would not in further launches.
void CudaGenerator::refuse_while_recording() const {
  TORCH_CHECK(!recording_,
              "a job's random state cannot be read or set in an iteration that is recorded as a "
              "CUDA graph");
}

void CudaGenerator::set_state(const c10::TensorImpl& state) {
  refuse_while_recording();
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(state.data()),
                                         static_cast<size_t>(state.numel()));
  const Status done = set_state_bytes(bytes);
  TORCH_CHECK(done.ok(), done.error().message);
}

c10::intrusive_ptr<c10::TensorImpl> CudaGenerator::get_state() const {
  refuse_while_recording();
  return bytes_tensor(state_bytes()).getIntrusivePtr();
}

void CudaGenerator::begin_recording(const at::TensorBase& seed, const at::TensorBase& offset) {
  LW_CHECK(!recording_, "a generator's draws are recorded twice at once");
  begin_draws(seed, offset);
  recording_ = true;
}

uint64_t CudaGenerator::end_recording() {
  recording_ = false;
  return end_draws();
}

#if TORCH_VERSION_MINOR >= 12

// Kernels look for the state of the capture that their stream is in. torch's own functions for the
// map are not exported, and would give the state tensors of its own.
void CudaGenerator::begin_draws(const at::TensorBase& seed, const at::TensorBase& offset) {
  capture_ = c10::cuda::currentStreamCaptureIdMayInitCtx();
  if (!capture_) return;  // another thread has spoilt the capture: its end will say so
  auto draws = c10::make_intrusive<at::CUDAGeneratorCaptureState>();
  draws->rng_state_seed_extragraph_ = seed;
  draws->rng_state_offset_extragraph_ = offset;
  const std::lock_guard<std::mutex> lock(torch_state_->capture_states_mutex_);
  torch_state_->capture_states_[*capture_] = std::move(draws);
}

uint64_t CudaGenerator::end_draws() {
  if (!capture_) return 0;
  const std::lock_guard<std::mutex> lock(torch_state_->capture_states_mutex_);
  const auto found = torch_state_->capture_states_.find(*capture_);
  const uint64_t drawn = found->second->offset_intragraph_;
  torch_state_->capture_states_.erase(found);
  capture_.reset();
  return drawn;
}

#else

void CudaGenerator::begin_draws(const at::TensorBase& seed, const at::TensorBase& offset) {
  torch_state_->seed_extragraph_ = seed;
  torch_state_->offset_extragraph_ = offset;
  torch_state_->offset_intragraph_ = 0;
  torch_state_->capturing_ = true;
}

uint64_t CudaGenerator::end_draws() {
  torch_state_->capturing_ = false;
  return torch_state_->offset_intragraph_;
}

#endif

}  // namespace laneway::adaptor
