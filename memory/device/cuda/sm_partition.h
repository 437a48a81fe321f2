// SmPartition: a part of a device's multiprocessors (SMs) on which only its streams compute: a
// green context of the driver. Memory, events and errors are the primary context's, so its streams
// work with all of them. It divides the SMs, but neither the memory bandwidth nor the caches. Must
// outlive its streams. Immutable.
//
// LibTorch's kernels run in it when a stream of CudaDevice::create_stream(partition) is torch's
// current stream, as an external stream.
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
  // Makes as many disjoint partitions of equal size as the device has room for, of `sms` SMs each
  // or the next number that the hardware can separate; SMs that are left over are in no partition.
  // Requires: one call per device, because each call gives out the same SMs again. Errors:
  // unsupported where the driver or the device has no green contexts, invalid_argument for 0 or
  // more SMs than one partition can have.
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
