// element_count: the number of elements of a tensor's sizes. Includes nothing of torch.
#pragma once

#include <cstdint>
#include <span>

namespace laneway::adaptor {

// The product of the sizes; 1 without sizes. The product of a checked graph's sizes overflows only
// for tensors without elements, where the result is zero in any case.
inline int64_t element_count(std::span<const int64_t> sizes) {
  uint64_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<uint64_t>(size);
  return static_cast<int64_t>(count);
}

}  // namespace laneway::adaptor
