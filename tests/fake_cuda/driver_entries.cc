// The driver API: cuGetProcAddress. A function is known by its name without suffix and by the CUDA
// version that it came with in this form, as cudaTypedefs.h says; the newest form that is not newer
// than the version asked for is given. The casts through the header's types prove each signature.
// Whoever asks for a form that is not there gets none: an older one takes other arguments.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <map>
#include <string>
#include <utility>

#include "tests/fake_cuda/gpu.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Gpu;

namespace {

using Entries = std::multimap<std::string, std::pair<int, void*>>;

#define ENTRY(name, version)                                                                 \
  {                                                                                          \
#name, { version, reinterpret_cast<void*>(static_cast<PFN_##name##_v##version>(&name)) } \
  }
#define ENTRY_AS(name, version, function)                                                        \
  {                                                                                              \
#name, { version, reinterpret_cast<void*>(static_cast<PFN_##name##_v##version>(&function)) } \
  }

#define LACKING(name, version)  \
  {                             \
#name, { version, nullptr } \
  }

Entries of_device_and_streams() {
  return {
      ENTRY(cuInit, 2000),
      ENTRY(cuDriverGetVersion, 2020),
      ENTRY(cuGetProcAddress, 12000),
      ENTRY(cuGetErrorName, 6000),
      ENTRY(cuGetErrorString, 6000),
      ENTRY(cuDeviceGet, 2000),
      ENTRY(cuDeviceGetCount, 2000),
      ENTRY(cuDeviceGetName, 2000),
      ENTRY(cuDeviceGetUuid, 11040),
      ENTRY(cuDeviceTotalMem, 3020),
      ENTRY(cuDeviceGetAttribute, 2000),
      ENTRY(cuDeviceGetPCIBusId, 4010),
      ENTRY(cuDeviceGetByPCIBusId, 4010),
      ENTRY(cuDeviceCanAccessPeer, 4000),
      ENTRY(cuDevicePrimaryCtxRetain, 7000),
      ENTRY(cuDevicePrimaryCtxRelease, 11000),
      ENTRY(cuDevicePrimaryCtxGetState, 7000),
      ENTRY(cuDevicePrimaryCtxSetFlags, 11000),
      ENTRY(cuDevicePrimaryCtxReset, 11000),
      ENTRY(cuCtxSetCurrent, 4000),
      ENTRY(cuCtxGetCurrent, 4000),
      ENTRY(cuCtxPushCurrent, 4000),
      ENTRY(cuCtxPopCurrent, 4000),
      ENTRY(cuCtxSynchronize, 2000),
      ENTRY_AS(cuCtxSynchronize, 13000, cuCtxSynchronize_v2),
      ENTRY(cuCtxGetDevice, 2000),
      ENTRY_AS(cuCtxGetDevice, 13000, cuCtxGetDevice_v2),
      ENTRY(cuCtxGetFlags, 7000),
      ENTRY(cuCtxGetId, 12000),
      ENTRY(cuCtxGetStreamPriorityRange, 5050),
      ENTRY(cuStreamCreate, 2000),
      ENTRY(cuStreamCreateWithPriority, 5050),
      ENTRY(cuStreamDestroy, 4000),
      ENTRY(cuStreamSynchronize, 2000),
      ENTRY(cuStreamQuery, 2000),
      ENTRY(cuStreamWaitEvent, 3020),
      ENTRY(cuStreamGetPriority, 5050),
      ENTRY(cuStreamGetFlags, 5050),
      ENTRY(cuStreamGetId, 12000),
      ENTRY(cuStreamGetCtx, 9020),
      LACKING(cuStreamGetCtx, 12050),
      ENTRY(cuLaunchHostFunc, 10000),
      LACKING(cuLaunchHostFunc, 13010),
      ENTRY(cuStreamBeginCapture, 10010),
      ENTRY(cuStreamEndCapture, 10000),
      ENTRY(cuStreamIsCapturing, 10000),
      ENTRY(cuStreamGetCaptureInfo, 12030),
      ENTRY(cuThreadExchangeStreamCaptureMode, 10010),
      ENTRY(cuGraphGetNodes, 10000),
      ENTRY(cuGraphInstantiateWithFlags, 11040),
      ENTRY(cuGraphUpload, 11010),
      ENTRY(cuGraphLaunch, 10000),
      ENTRY(cuGraphExecDestroy, 10000),
      ENTRY(cuGraphDestroy, 10000),
      ENTRY(cuEventCreate, 2000),
      ENTRY(cuEventDestroy, 4000),
      ENTRY(cuEventRecord, 2000),
      ENTRY(cuEventRecordWithFlags, 11010),
      ENTRY(cuEventQuery, 2000),
      ENTRY(cuEventSynchronize, 2000),
      ENTRY(cuEventElapsedTime, 2000),
      ENTRY(cuEventElapsedTime, 12080),
  };
}

Entries of_memory() {
  return {
      ENTRY(cuMemGetInfo, 3020),
      ENTRY(cuMemAlloc, 3020),
      ENTRY(cuMemFree, 3020),
      ENTRY(cuMemAllocAsync, 11020),
      ENTRY(cuMemFreeAsync, 11020),
      ENTRY(cuMemGetAddressRange, 3020),
      ENTRY(cuMemHostAlloc, 2020),
      ENTRY(cuMemAllocHost, 3020),
      ENTRY(cuMemFreeHost, 2000),
      ENTRY(cuMemHostRegister, 6050),
      ENTRY(cuMemHostUnregister, 4000),
      ENTRY(cuMemHostGetDevicePointer, 3020),
      ENTRY(cuMemHostGetFlags, 2030),
      ENTRY(cuPointerGetAttribute, 4000),
      ENTRY(cuMemcpy, 4000),
      ENTRY(cuMemcpyAsync, 4000),
      ENTRY(cuMemcpyHtoD, 3020),
      ENTRY(cuMemcpyDtoH, 3020),
      ENTRY(cuMemcpyDtoD, 3020),
      ENTRY(cuMemcpyHtoDAsync, 3020),
      ENTRY(cuMemcpyDtoHAsync, 3020),
      ENTRY(cuMemcpyDtoDAsync, 3020),
      ENTRY(cuMemsetD8, 3020),
      ENTRY(cuMemsetD16, 3020),
      ENTRY(cuMemsetD32, 3020),
      ENTRY(cuMemsetD8Async, 3020),
      ENTRY(cuMemsetD16Async, 3020),
      ENTRY(cuMemsetD32Async, 3020),
      ENTRY(cuMemGetAllocationGranularity, 10020),
      ENTRY(cuMemAddressReserve, 10020),
      ENTRY(cuMemAddressFree, 10020),
      ENTRY(cuMemCreate, 10020),
      ENTRY(cuMemRelease, 10020),
      ENTRY(cuMemMap, 10020),
      ENTRY(cuMemUnmap, 10020),
      ENTRY(cuMemSetAccess, 10020),
      ENTRY(cuMemGetAccess, 10020),
      ENTRY(cuMemExportToShareableHandle, 10020),
      ENTRY(cuMemImportFromShareableHandle, 10020),
      ENTRY(cuMemRetainAllocationHandle, 11000),
      ENTRY(cuMemGetAllocationPropertiesFromHandle, 10020),
      ENTRY(cuDeviceGetDevResource, 12040),
      ENTRY(cuCtxGetDevResource, 12040),
      ENTRY(cuGreenCtxGetDevResource, 12040),
      ENTRY(cuDevSmResourceSplitByCount, 12040),
      ENTRY(cuDevResourceGenerateDesc, 12040),
      ENTRY(cuGreenCtxCreate, 12040),
      ENTRY(cuGreenCtxDestroy, 12040),
      ENTRY(cuCtxFromGreenCtx, 12040),
      ENTRY(cuGreenCtxStreamCreate, 12050),
      ENTRY(cuStreamGetGreenCtx, 12040),
  };
}

const Entries& entries() {
  static const Entries* const table = [] {
    auto* const all = new Entries(of_device_and_streams());
    all->merge(of_memory());
    return all;
  }();
  return *table;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t,
                          CUdriverProcAddressQueryResult* found) {
  return call("cuGetProcAddress", Gpu::Needs::nothing, [&](Gpu& gpu) {
    *function = nullptr;
    auto status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    int newest = 0;
    const auto [begin, end] = entries().equal_range(symbol);
    for (auto entry = begin; entry != end; ++entry) {
      const auto& [since, pointer] = entry->second;
      if (newest == 0) status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      if (since > version || since < newest) continue;
      newest = since;
      *function = pointer;
      status =
          pointer != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    if (found != nullptr) *found = status;
    if (*function != nullptr) return CUDA_SUCCESS;
    gpu.journal.note(std::string("missing ") + symbol + " " + std::to_string(version));
    if (newest != 0) {
      gpu.journal.complain(std::string(symbol) + ": the fake lacks its form of CUDA " +
                           std::to_string(newest));
    }
    // With a place for the reason, a name that is not known is no error.
    return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}

// The way into the driver that CUDA's own runtime takes; the fake stands in its place.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  return call("cuGetExportTable", Gpu::Needs::nothing, [&](Gpu& gpu) {
    *table = nullptr;
    return gpu.refuse(CUDA_ERROR_NOT_SUPPORTED,
                      "cuGetExportTable: CUDA's own runtime was reached: a function of it that the "
                      "fake does not stand in for was called");
  });
}

}  // extern "C"
