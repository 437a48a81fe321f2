// SmPartition: a part of a device's multiprocessors (SMs) that only its streams compute on: a green
// context of the driver's. Memory, events and errors are the primary context's, so its streams work
// with all of them. It divides the SMs, not the bandwidth of memory nor the caches. Must outlive
// its streams. Immutable.
//
// LibTorch's kernels get into it through a stream: CudaDevice::create_stream(partition), made
// torch's current stream as an external one.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "memory/device/cuda/cuda_context.h"

namespace laneway::memory {

class SmPartition {
 public:
  // As many disjoint partitions of equal size as the device has room for, of `sms` SMs each or the
  // next number that the hardware can separate; what is left over is in none. Once for a device:
  // the same SMs are handed out again each time. Errors: unsupported where the driver or the device
  // has no green contexts, invalid_argument for 0 or more SMs than one partition can have.
  static Result<std::vector<std::unique_ptr<SmPartition>>> split(const CudaContext& context,
                                                                 uint32_t sms);
  ~SmPartition();
  SmPartition(const SmPartition&) = delete;
  SmPartition& operator=(const SmPartition&) = delete;

  uint32_t sms() const { return sms_; }
  CUgreenCtx handle() const { return green_; }

 private:
  SmPartition(const CudaDriver& driver, CUgreenCtx green, uint32_t sms)
      : driver_(driver), green_(green), sms_(sms) {}

  const CudaDriver& driver_;
  const CUgreenCtx green_;
  const uint32_t sms_;
};

}  // namespace laneway::memory
