// What the fake says of its device: an H100, in the attributes that programs ask for.
#pragma once

#include <cuda.h>

#include "tests/fake_cuda/settings.h"

namespace laneway::fake_cuda::hopper {

inline constexpr const char* kName = "Fake H100";
inline constexpr const char* kBusId = "0000:01:00.0";
inline constexpr int kMultiprocessors = 132;
// Green contexts: partitions are multiples of 8 multiprocessors.
inline constexpr unsigned kPartition = 8;
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

// False when the fake has no value for the attribute.
bool attribute(const Settings& settings, CUdevice_attribute attribute, int* value);

}  // namespace laneway::fake_cuda::hopper
