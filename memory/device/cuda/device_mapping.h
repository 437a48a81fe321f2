// DeviceMapping: device memory behind a descriptor that other processes can map, and its mapping
// here: one physical allocation in one range of addresses. The memory lives until the last mapping
// and the last descriptor are gone, whichever process they are in. Move-only owner of both;
// children made by fork() do not get the descriptor. Not thread-safe.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "base/bytes.h"
#include "base/result.h"
#include "memory/device/cuda/cuda_context.h"
#include "memory/os/owned_descriptor.h"

namespace laneway::memory {

class DeviceMapping {
 public:
  // Whether create and attach work on this platform: it makes and frees small mappings. Drivers,
  // containers and virtual machines that do not allow it fail in different calls; the error is that
  // call's.
  static Status possible(const CudaContext& context);
  // Makes a mapping of at least `size` bytes, not cleared. Errors: out_of_memory, unsupported.
  static Result<DeviceMapping> create(const CudaContext& context, Bytes size);
  // Maps memory that create made for `size` bytes, in this process or another, on the same device.
  // Takes ownership of the descriptor, also on failure. Error invalid_argument when the descriptor
  // is of anything else.
  static Result<DeviceMapping> attach(const CudaContext& context, int descriptor, Bytes size);

  DeviceMapping(DeviceMapping&& other) noexcept;
  DeviceMapping& operator=(DeviceMapping&&) = delete;
  ~DeviceMapping();

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  // The descriptor that may be sent to another process; this object keeps owning it.
  int descriptor() const { return descriptor_.get(); }

 private:
  // The physical memory, until it is mapped.
  class Physical;

  static Result<DeviceMapping> map(const CudaContext& context, const Physical& physical,
                                   size_t bytes, OwnedDescriptor descriptor);
  DeviceMapping(const CudaContext& context, OwnedDescriptor descriptor)
      : context_(&context), descriptor_(std::move(descriptor)) {}

  const CudaContext* context_;
  OwnedDescriptor descriptor_;
  bool kept_from_children_ = false;
  CUdeviceptr address_ = 0;  // 0: nothing reserved
  size_t bytes_ = 0;
  bool mapped_ = false;
};

}  // namespace laneway::memory
