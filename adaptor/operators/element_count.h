// element_count: how many elements sizes stand for. Names nothing of torch.
#pragma once

#include <cstdint>
#include <span>

namespace laneway::adaptor {

// Their product, 1 where there are none. Sizes of a checked graph do not overflow unless there are
// no elements at all; then it wraps on its way to zero.
inline int64_t element_count(std::span<const int64_t> sizes) {
  uint64_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<uint64_t>(size);
  return static_cast<int64_t>(count);
}

}  // namespace laneway::adaptor
