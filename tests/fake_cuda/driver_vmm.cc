// The driver API: addresses, physical memory and mappings of their own (virtual memory management).
#include <cuda.h>
#include <fcntl.h>

#include <algorithm>
#include <string>

#include "tests/fake_cuda/gpu.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::DeviceMemory;
using laneway::fake_cuda::Gpu;

namespace {

template <typename Body>
CUresult vmm_call(const char* name, Body body) {
  return call(name, Gpu::Needs::whole, [&](Gpu& gpu) -> CUresult {
    if (!gpu.settings.vmm) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult result = body(gpu);
    if (result == CUDA_ERROR_INVALID_VALUE) {
      gpu.journal.complain(std::string(name) + ": invalid argument");
    }
    return result;
  });
}

bool on_this_device(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id == 0;
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  return vmm_call("cuMemGetAllocationGranularity", [&](Gpu&) {
    *granularity = DeviceMemory::kGranularity;
    return on_this_device(properties->location) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  return vmm_call("cuMemAddressReserve", [&](Gpu& gpu) {
    const size_t grain = DeviceMemory::kGranularity;
    if (flags != 0 || size % grain != 0) return CUDA_ERROR_INVALID_VALUE;
    return gpu.memory.reserve(size, std::max(alignment, grain), address);
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  return vmm_call("cuMemAddressFree",
                  [&](Gpu& gpu) { return gpu.memory.unreserve(address, size); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  return vmm_call("cuMemCreate", [&](Gpu& gpu) {
    const auto types = static_cast<unsigned>(properties->requestedHandleTypes);
    const bool exported = (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
    if (flags != 0 || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        !on_this_device(properties->location)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if ((types & ~unsigned{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR}) != 0) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (exported && !gpu.settings.fd) return CUDA_ERROR_NOT_SUPPORTED;
    return gpu.memory.create(size, exported, handle);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return vmm_call("cuMemRelease", [&](Gpu& gpu) { return gpu.memory.release(handle); });
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return vmm_call("cuMemMap", [&](Gpu& gpu) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return gpu.memory.map(address, size, offset, handle);
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  return vmm_call("cuMemUnmap", [&](Gpu& gpu) { return gpu.memory.unmap(address, size); });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* access,
                        size_t count) {
  return vmm_call("cuMemSetAccess", [&](Gpu& gpu) {
    if (count != 1 || !on_this_device(access[0].location)) return CUDA_ERROR_INVALID_VALUE;
    // A device that may only read is none that work can be given to.
    const bool writable = access[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return gpu.memory.set_access(address, size, writable);
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  return vmm_call("cuMemGetAccess", [&](Gpu& gpu) {
    if (!on_this_device(*location)) return CUDA_ERROR_INVALID_VALUE;
    *flags = gpu.memory.bytes(address, 1) != nullptr ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return vmm_call("cuMemExportToShareableHandle", [&](Gpu& gpu) {
    const auto physical = gpu.memory.physical(handle);
    if (flags != 0 || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !physical->exportable) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const int fd = fcntl(physical->fd(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(out) = fd;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  return vmm_call("cuMemImportFromShareableHandle", [&](Gpu& gpu) {
    if (!gpu.settings.fd) return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    // The descriptor itself is passed where others take a pointer to the handle.
    return gpu.memory.import(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)), handle);
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return vmm_call("cuMemRetainAllocationHandle", [&](Gpu& gpu) {
    return gpu.memory.retain(reinterpret_cast<CUdeviceptr>(address), handle);
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  return vmm_call("cuMemGetAllocationPropertiesFromHandle", [&](Gpu& gpu) {
    const auto physical = gpu.memory.physical(handle);
    if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *properties = {};
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (physical->exportable) {
      properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
