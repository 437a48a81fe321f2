// Copies and fills, as every function that moves bytes asks for them. With the mutex held.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <string>

#include "tests/fake_cuda/gpu.h"

namespace laneway::fake_cuda {

// One end of a copy: device memory, pinned memory, or pageable memory of the CPU.
enum class Place : uint8_t { device, pinned, pageable };

struct Copy {
  std::string call;  // of the API, for complaints
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};

// Puts a copy into the stream. As on the device: pageable memory is read before this returns, and
// written before this returns (so it waits); pinned memory is touched when the copy's turn comes.
// Errors: invalid_value when a device address is not in memory that is mapped now; when it no
// longer is at the copy's turn, or pinned memory no longer is pinned, the device is lost.
CUresult submit_copy(Gpu& gpu, const std::shared_ptr<Stream>& stream, const Copy& copy);

// Puts a fill with `count` times the lowest `width` bytes of `value` into the stream.
struct Fill {
  std::string call;
  CUdeviceptr to = 0;
  uint32_t value = 0;
  size_t width = 1;
  size_t count = 0;
};
CUresult submit_fill(Gpu& gpu, const std::shared_ptr<Stream>& stream, const Fill& fill);

}  // namespace laneway::fake_cuda
