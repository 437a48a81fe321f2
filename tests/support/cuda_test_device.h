// cuda_test_device: the GPU that tests use: $LANEWAY_TEST_DEVICE ("cuda:1"), else the first; null
// where there is none.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "memory/device/cuda/cuda_device.h"

namespace laneway::testing {

inline std::unique_ptr<memory::CudaDevice> cuda_test_device() {
  const char* const named = std::getenv("LANEWAY_TEST_DEVICE");
  const std::string name = named == nullptr ? "cuda:0" : named;
  if (!name.starts_with("cuda:")) return nullptr;
  const long ordinal = std::strtol(name.c_str() + sizeof("cuda:") - 1, nullptr, 10);
  auto device = memory::CudaDevice::open(static_cast<int>(ordinal));
  return device.ok() ? std::move(device).value() : nullptr;
}

}  // namespace laneway::testing
