// Backend: a device as worker and adaptor see it: memory and streams below, and the lanes above;
// adaptor/device/torch_backend.h adds torch's side. Names nothing of torch, so that the worker can
// hold one. "host" is in this
// library; "cuda:N" is a plugin (adaptor/device/device_plugin.h), loaded when it is asked for.
// Thread-safe; outlives everything that was made from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "adaptor/device/device_lane.h"
#include "base/bytes.h"
#include "base/result.h"
#include "memory/device/device.h"
#include "memory/pool_access.h"

namespace laneway::adaptor {

struct BackendOptions {
  // Multiprocessors of each lane's own partition; 0: all lanes share all of them. Devices without
  // partitions refuse any other value.
  uint32_t lane_sms = 0;
  // At which bytes come into the host's pool, per second; 0: as fast as the machine copies.
  int64_t copy_bandwidth_per_s = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual memory::Device& device() = 0;
  virtual memory::PoolAccess& pool_access() = 0;
  // Error out_of_memory or unsupported, naming what the device does not have.
  virtual Result<std::unique_ptr<DeviceLane>> make_lane() = 0;

  // Which kernels run: "cpu" or "cuda". What clients capture for.
  virtual std::string kernels() const = 0;
  // Bytes that a pool may have: what is free on the device now.
  virtual Bytes free_memory() const = 0;
  // The pool that another process made and exported, mapped here. Takes the descriptor over.
  // unsupported where the platform cannot.
  virtual Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int descriptor, Bytes size) = 0;
  // Blocks of iterations that ended, still used by somebody, within `size` bytes from `base`.
  virtual size_t escaped_within(const std::byte* base, Bytes size) = 0;
  // device_lost, with what the device said, once it failed for good: no call of this process will
  // work any more.
  virtual Status health() const = 0;

  // Of offsets in the pool: images, their slots, allocations.
  int64_t alignment() { return device().capabilities().alignment; }
};

// "host" or "cuda:N". Process-wide state of what computes there exists from then on, and so lasts
// longer than what is registered later to run at exit. Errors: invalid_argument for any other text
// and for options that the device does not have, unsupported, saying what is missing, where there
// is no such device.
Result<std::unique_ptr<Backend>> open_backend(std::string_view name, const BackendOptions& options);

}  // namespace laneway::adaptor
