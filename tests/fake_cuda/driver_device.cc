// The driver API: initialisation, errors and what the device is.
#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/hopper.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Gpu;
namespace hopper = laneway::fake_cuda::hopper;

namespace {

struct ErrorText {
  const char* name;
  const char* text;
};

const std::map<int, ErrorText>& error_texts() {
  // Like all tables here never destroyed: libraries still call when the process ends.
  static const auto& texts = *new std::map<int, ErrorText>{
#define ERROR(name, text) \
  {                       \
    name, { #name, text } \
  }
      ERROR(CUDA_SUCCESS, "no error"),
      ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
      ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
      ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
      ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
      ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
      ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
      ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
      ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
      ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
      ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
      ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
      ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
      ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
      ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
      ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
      ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "host memory is registered already"),
      ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "host memory was not registered"),
      ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
      ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
      ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted when the stream is capturing"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "a previous error ended the capture"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture did not begin in this stream"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "work of another stream was not joined"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency on work outside of the capture"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "dependency on the legacy stream in a capture"),
      ERROR(CUDA_ERROR_CAPTURED_EVENT, "not permitted on an event last recorded in a capture"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began on another thread"),
      ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef ERROR
  };
  return texts;
}

CUresult check_device(const Gpu& gpu, CUdevice device) {
  return gpu.settings.device && device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned flags) {
  return call("cuInit", Gpu::Needs::nothing, [&](Gpu& gpu) -> CUresult {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!gpu.settings.device) return CUDA_ERROR_NO_DEVICE;
    gpu.initialized = true;
    return CUDA_SUCCESS;
  });
}

CUresult cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", Gpu::Needs::nothing, [&](Gpu&) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
  });
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  const auto found = error_texts().find(error);
  *name = found == error_texts().end() ? nullptr : found->second.name;
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const auto found = error_texts().find(error);
  *text = found == error_texts().end() ? nullptr : found->second.text;
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return call("cuDeviceGet", Gpu::Needs::initialized, [&](Gpu& gpu) {
    *device = 0;
    return check_device(gpu, ordinal);
  });
}

CUresult cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", Gpu::Needs::initialized, [&](Gpu& gpu) {
    *count = gpu.settings.device ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return call("cuDeviceGetName", Gpu::Needs::initialized, [&](Gpu& gpu) {
    if (length <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::strncpy(name, hopper::kName, static_cast<size_t>(length));
    name[length - 1] = '\0';
    return check_device(gpu, device);
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return call("cuDeviceGetUuid", Gpu::Needs::initialized, [&](Gpu& gpu) {
    std::copy_n("fake CUDA device", sizeof(uuid->bytes), uuid->bytes);
    return check_device(gpu, device);
  });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return call("cuDeviceTotalMem", Gpu::Needs::initialized, [&](Gpu& gpu) {
    *bytes = gpu.memory.total();
    return check_device(gpu, device);
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return call("cuDeviceGetAttribute", Gpu::Needs::initialized, [&](Gpu& gpu) {
    if (!hopper::attribute(gpu.settings, attribute, value)) {
      return gpu.refuse(CUDA_ERROR_INVALID_VALUE, "cuDeviceGetAttribute: no value for attribute " +
                                                      std::to_string(static_cast<int>(attribute)));
    }
    return check_device(gpu, device);
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  return call("cuDeviceGetPCIBusId", Gpu::Needs::initialized, [&](Gpu& gpu) {
    if (length < 13) return CUDA_ERROR_INVALID_VALUE;
    std::strcpy(id, hopper::kBusId);
    return check_device(gpu, device);
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  return call("cuDeviceGetByPCIBusId", Gpu::Needs::initialized, [&](Gpu&) {
    *device = 0;
    return std::strcmp(id, hopper::kBusId) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return call("cuDeviceCanAccessPeer", Gpu::Needs::initialized, [&](Gpu& gpu) {
    *can = 0;
    return check_device(gpu, std::max(device, peer));
  });
}

}  // extern "C"
