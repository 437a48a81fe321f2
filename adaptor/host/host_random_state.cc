#include "adaptor/host/host_random_state.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>

namespace laneway::adaptor {

HostRandomState::HostRandomState() : generator_(at::detail::createCPUGenerator()) {}

at::CPUGeneratorImpl* HostRandomState::implementation() const {
  return generator_.get<at::CPUGeneratorImpl>();
}

Status HostRandomState::set(std::span<const std::byte> state) {
  try {
    at::Tensor bytes = at::empty({static_cast<int64_t>(state.size())}, at::kByte);
    if (!state.empty()) std::memcpy(bytes.mutable_data_ptr(), state.data(), state.size());
    generator_.set_state(bytes);
    return {};
  } catch (const std::exception& error) {
    return Error{ErrorCode::invalid_argument,
                 "the random state of " + std::to_string(state.size()) +
                     " bytes is not one of torch.get_rng_state(): " + error.what()};
  }
}

std::vector<std::byte> HostRandomState::get() const {
  const at::Tensor state = generator_.get_state();
  std::vector<std::byte> bytes(state.nbytes());
  std::memcpy(bytes.data(), state.const_data_ptr(), bytes.size());
  return bytes;
}

void HostRandomState::mark() {
  at::CPUGeneratorImpl* const from = implementation();
  mark_ = Mark{from->engine(), from->next_float_normal_sample(), from->next_double_normal_sample()};
}

void HostRandomState::rewind() {
  LW_CHECK(mark_.has_value(), "rewind without mark");
  at::CPUGeneratorImpl* const to = implementation();
  to->set_engine(mark_->engine);
  to->set_next_float_normal_sample(mark_->next_float);
  to->set_next_double_normal_sample(mark_->next_double);
}

}  // namespace laneway::adaptor
