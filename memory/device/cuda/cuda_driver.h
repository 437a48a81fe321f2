// CudaDriver: the functions of NVIDIA's driver that Laneway calls, found at run time: no part of
// Laneway links a CUDA library, so every program starts on a machine without a driver. A member has
// the name and the signature of its function. The forms are those of the headers that Laneway is
// built with, with one default stream for all threads (never the _ptsz forms). Immutable; lives
// until the process ends.
#pragma once

#include <cuda.h>

#include "base/result.h"

// Each function with the CUDA version that introduced the form that is called. Every driver that is
// new enough has all of them.
#define LW_CUDA_REQUIRED_ENTRIES(X)   \
  X(cuInit, 2000)                     \
  X(cuDriverGetVersion, 2020)         \
  X(cuGetErrorName, 6000)             \
  X(cuGetErrorString, 6000)           \
  X(cuDeviceGet, 2000)                \
  X(cuDeviceGetCount, 2000)           \
  X(cuDeviceGetName, 2000)            \
  X(cuDeviceGetAttribute, 2000)       \
  X(cuDevicePrimaryCtxRetain, 7000)   \
  X(cuDevicePrimaryCtxRelease, 11000) \
  X(cuCtxGetCurrent, 4000)            \
  X(cuCtxPushCurrent, 4000)           \
  X(cuCtxPopCurrent, 4000)            \
  X(cuStreamCreate, 2000)             \
  X(cuStreamDestroy, 4000)            \
  X(cuStreamSynchronize, 2000)        \
  X(cuStreamQuery, 2000)              \
  X(cuStreamWaitEvent, 3020)          \
  X(cuLaunchHostFunc, 10000)          \
  X(cuEventCreate, 2000)              \
  X(cuEventDestroy, 4000)             \
  X(cuEventRecord, 2000)              \
  X(cuEventQuery, 2000)               \
  X(cuEventSynchronize, 2000)         \
  X(cuMemGetInfo, 3020)               \
  X(cuMemAlloc, 3020)                 \
  X(cuMemFree, 3020)                  \
  X(cuMemHostAlloc, 2020)             \
  X(cuMemFreeHost, 2000)              \
  X(cuMemHostRegister, 6050)          \
  X(cuMemHostUnregister, 4000)        \
  X(cuMemcpyHtoDAsync, 3020)          \
  X(cuMemcpyDtoHAsync, 3020)          \
  X(cuMemcpyDtoDAsync, 3020)          \
  X(cuMemsetD8Async, 3020)            \
  X(cuMemsetD32Async, 3020)

// These are null where a platform does not have them; the code that needs one returns an error that
// says so.
#define LW_CUDA_OPTIONAL_ENTRIES(X)           \
  X(cuThreadExchangeStreamCaptureMode, 10010) \
  X(cuMemGetAllocationGranularity, 10020)     \
  X(cuMemAddressReserve, 10020)               \
  X(cuMemAddressFree, 10020)                  \
  X(cuMemCreate, 10020)                       \
  X(cuMemRelease, 10020)                      \
  X(cuMemMap, 10020)                          \
  X(cuMemUnmap, 10020)                        \
  X(cuMemSetAccess, 10020)                    \
  X(cuMemExportToShareableHandle, 10020)      \
  X(cuMemImportFromShareableHandle, 10020)    \
  X(cuDeviceGetDevResource, 12040)            \
  X(cuDevSmResourceSplitByCount, 12040)       \
  X(cuDevResourceGenerateDesc, 12040)         \
  X(cuGreenCtxCreate, 12040)                  \
  X(cuGreenCtxDestroy, 12040)                 \
  X(cuGreenCtxStreamCreate, 12050)

namespace laneway::memory {

struct CudaDriver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name cannot be declared in parentheses
#define LW_CUDA_MEMBER(name, version) decltype(&::name) name = nullptr;
  LW_CUDA_REQUIRED_ENTRIES(LW_CUDA_MEMBER)
  LW_CUDA_OPTIONAL_ENTRIES(LW_CUDA_MEMBER)
#undef LW_CUDA_MEMBER

  // The process's driver, loaded at the first call. Error unsupported names what is missing (the
  // library, a newer version, an entry) and the remedy; the next call tries again.
  static Result<const CudaDriver*> load();
  // The functions of `library`, independent of load(): for tests.
  static Result<CudaDriver> load_from(const char* library);
};

}  // namespace laneway::memory
