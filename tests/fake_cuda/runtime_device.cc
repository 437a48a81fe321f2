// The runtime API: what the device is, and waiting for all of it.
#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/hopper.h"
#include "tests/fake_cuda/runtime.h"

using laneway::fake_cuda::not_faked;
using laneway::fake_cuda::runtime;
using laneway::fake_cuda::Wants;
namespace hopper = laneway::fake_cuda::hopper;

namespace {

int value_of(CUdevice_attribute attribute) {
  int value = 0;
  cuDeviceGetAttribute(&value, attribute, 0);
  return value;
}

void set_limits(cudaDeviceProp* to) {
  to->sharedMemPerBlock = value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  to->sharedMemPerBlockOptin = value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  to->sharedMemPerMultiprocessor =
      value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  to->reservedSharedMemPerBlock = value_of(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  to->regsPerBlock = value_of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  to->regsPerMultiprocessor = value_of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  to->warpSize = value_of(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  to->memPitch = value_of(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  to->maxThreadsPerBlock = value_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  to->maxThreadsDim[0] = value_of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  to->maxThreadsDim[1] = value_of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  to->maxThreadsDim[2] = value_of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  to->maxGridSize[0] = value_of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  to->maxGridSize[1] = value_of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  to->maxGridSize[2] = value_of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  to->totalConstMem = value_of(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  to->maxThreadsPerMultiProcessor = value_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  to->maxBlocksPerMultiProcessor = value_of(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return runtime("cudaGetDeviceCount", Wants::device, [&] { return cuDeviceGetCount(count); });
}

cudaError_t cudaGetDevice(int* device) {
  return runtime("cudaGetDevice", Wants::device, [&] {
    *device = 0;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return runtime("cudaGetDeviceProperties", Wants::device, [&] {
    *properties = {};
    set_limits(properties);
    cuDeviceGetName(properties->name, sizeof(properties->name), device);
    cuDeviceGetUuid(&properties->uuid, device);
    properties->major = value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    properties->minor = value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    properties->multiProcessorCount = hopper::kMultiprocessors;
    properties->textureAlignment = value_of(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    properties->canMapHostMemory = 1;
    properties->concurrentKernels = 1;
    properties->pciBusID = value_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    properties->asyncEngineCount = value_of(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    properties->unifiedAddressing = 1;
    properties->memoryBusWidth = value_of(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    properties->l2CacheSize = value_of(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    properties->streamPrioritiesSupported = 1;
    properties->globalL1CacheSupported = 1;
    properties->localL1CacheSupported = 1;
    properties->computePreemptionSupported = 1;
    properties->canUseHostPointerForRegisteredMem = 1;
    properties->cooperativeLaunch = 1;
    properties->hostRegisterSupported = 1;
    properties->clusterLaunch = 1;
    return cuDeviceTotalMem(&properties->totalGlobalMem, device);
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return runtime("cudaDeviceGetAttribute", Wants::device, [&] {
    // The numbers of the two enumerations agree.
    return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return runtime("cudaDeviceGetPCIBusId", Wants::device,
                 [&] { return cuDeviceGetPCIBusId(id, length, device); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return runtime("cudaDeviceGetStreamPriorityRange",
                 [&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return runtime("cudaDeviceCanAccessPeer", Wants::device,
                 [&] { return cuDeviceCanAccessPeer(can, device, peer); });
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return not_faked("cudaDeviceEnablePeerAccess");
}

cudaError_t cudaDeviceSynchronize() {
  return runtime("cudaDeviceSynchronize", [] { return cuCtxSynchronize(); });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return runtime("cudaDriverGetVersion", Wants::nothing,
                 [&] { return cuDriverGetVersion(version); });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return runtime("cudaRuntimeGetVersion", Wants::nothing, [&] {
    const int said = laneway::fake_cuda::Gpu::get().settings.runtime_version;
    *version = said != 0 ? said : CUDART_VERSION;
    return CUDA_SUCCESS;
  });
}

// NOLINTBEGIN(readability-identifier-naming): names of a header that is not there
cudaError_t cudaProfilerStart() {
  return runtime("cudaProfilerStart", [] { return CUDA_SUCCESS; });
}
cudaError_t cudaProfilerStop() {
  return runtime("cudaProfilerStop", [] { return CUDA_SUCCESS; });
}
// NOLINTEND(readability-identifier-naming)

}  // extern "C"
