// Backend: a device as worker and adaptor see it: its memory and streams, and its lanes;
// adaptor/device/torch_backend.h adds torch's side. Includes nothing of torch, so that the worker
// can hold one. "host" is in this library; "cuda:N", as any "KIND:N", is a plugin
// (adaptor/device/device_plugin.h), loaded when it is opened. Thread-safe; must outlive all objects
// that it made.
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
  // Bytes per second of copies into and out of the host's pool; 0: as fast as the machine copies.
  int64_t copy_bandwidth_per_s = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual memory::Device& device() = 0;
  virtual memory::PoolAccess& pool_access() = 0;
  // Makes a lane. Error out_of_memory or unsupported names what the device does not have.
  virtual Result<std::unique_ptr<DeviceLane>> make_lane() = 0;

  // The kernels that run, for which clients capture: "cpu" or "cuda".
  virtual std::string kernels() const = 0;
  // The bytes that are free on the device now: the most that a pool may have.
  virtual Bytes free_memory() const = 0;
  // Maps the pool that another process made and exported. Takes ownership of the descriptor.
  // unsupported where the platform cannot map it.
  virtual Result<std::unique_ptr<memory::MemoryBlock>> attach_pool(int descriptor, Bytes size) = 0;
  // The number of blocks within `size` bytes from `base` that are still in use after their
  // iterations ended.
  virtual size_t escaped_within(const std::byte* base, Bytes size) = 0;
  // device_lost with the device's error, once the device failed for good: no call of this process
  // will succeed any more.
  virtual Status health() const = 0;

  // The alignment of offsets in the pool: of images, their slots, allocations.
  int64_t alignment() { return device().capabilities().alignment; }
};

// Opens "host" or "KIND:N". The process-wide state of the libraries that compute there exists from
// then on, so it is destroyed after handlers that are registered later to run at exit. Errors:
// invalid_argument for any other name and for options that the device does not have; unsupported,
// with what is missing, where there is no such device.
Result<std::unique_ptr<Backend>> open_backend(std::string_view name, const BackendOptions& options);

}  // namespace laneway::adaptor
