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
  // Whether create works here: by making a small one. Drivers, containers and virtual machines that
  // do not allow it say so in different calls.
  static bool possible(const CudaContext& context);
  // At least `size` bytes, with whatever was in them. Errors: out_of_memory, unsupported.
  static Result<DeviceMapping> create(const CudaContext& context, Bytes size);
  // Maps memory that create made for `size` bytes, in this process or another, on the same device.
  // Takes the descriptor over, also on failure. Error invalid_argument when it is something else.
  static Result<DeviceMapping> attach(const CudaContext& context, int descriptor, Bytes size);

  DeviceMapping(DeviceMapping&& other) noexcept;
  DeviceMapping& operator=(DeviceMapping&&) = delete;
  ~DeviceMapping();

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  // To hand to another process; stays owned by this object.
  int descriptor() const { return descriptor_.get(); }

 private:
  // Its physical memory, until it is mapped.
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
