#include "tests/remote_backend/remote_loss.h"

#include <array>
#include <cstring>

namespace laneway::testing {

std::optional<RemoteLoss::When> RemoteLoss::breaks(const void* input, Bytes bytes) {
  std::array<float, 2> first{};
  if (bytes < Bytes(sizeof(first))) return {};
  std::memcpy(first.data(), input, sizeof(first));
  if (first == std::array{710.0F, -710.0F}) return When::at_once;
  if (first == std::array{710.0F, -711.0F}) return When::when_retired;
  return {};
}

void RemoteLoss::lose() {
  const MutexLock lock(mutex_);
  lost_ = true;
}

Status RemoteLoss::health() const {
  const MutexLock lock(mutex_);
  if (!lost_) return {};
  return Error{ErrorCode::device_lost, "an input broke it, as it was to"};
}

}  // namespace laneway::testing
