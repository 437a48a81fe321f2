// The driver API: green contexts, which own a part of the device's multiprocessors.
#include <cuda.h>

#include <algorithm>
#include <memory>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/hopper.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::Stream;
namespace hopper = laneway::fake_cuda::hopper;

namespace {

template <typename Body>
CUresult green_call(const char* name, Body body) {
  return call(name, Gpu::Needs::whole, [&](Gpu& gpu) -> CUresult {
    return gpu.settings.green ? body(gpu) : CUDA_ERROR_NOT_SUPPORTED;
  });
}

CUdevResource multiprocessors(unsigned count) {
  CUdevResource resource{};
  resource.type = count == 0 ? CU_DEV_RESOURCE_TYPE_INVALID : CU_DEV_RESOURCE_TYPE_SM;
  resource.sm.smCount = count;
  resource.sm.minSmPartitionSize = hopper::kPartition;
  resource.sm.smCoscheduledAlignment = hopper::kPartition;
  return resource;
}

// A description is only a count here, kept in the handle itself.
CUdevResourceDesc describe(unsigned count) {
  return reinterpret_cast<CUdevResourceDesc>(uintptr_t{0x500000} + count);
}
unsigned described(CUdevResourceDesc description) {
  const uintptr_t value = reinterpret_cast<uintptr_t>(description);
  return value >= 0x500000 && value <= 0x500000 + hopper::kMultiprocessors
             ? static_cast<unsigned>(value - 0x500000)
             : 0;
}

}  // namespace

extern "C" {

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  return green_call("cuDeviceGetDevResource", [&](Gpu&) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = multiprocessors(hopper::kMultiprocessors);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource* resource, CUdevResourceType type) {
  return green_call("cuCtxGetDevResource", [&](Gpu& gpu) {
    const auto found = gpu.contexts.find(context);
    if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    const auto green = gpu.contexts.green(found->green);
    *resource = multiprocessors(green != nullptr ? green->sms : hopper::kMultiprocessors);
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* resource,
                                  CUdevResourceType type) {
  return green_call("cuGreenCtxGetDevResource", [&](Gpu& gpu) {
    const auto green = gpu.contexts.green(handle);
    if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = multiprocessors(green->sms);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* groups,
                                     const CUdevResource* input, CUdevResource* remaining,
                                     unsigned flags, unsigned least) {
  return green_call("cuDevSmResourceSplitByCount", [&](Gpu&) {
    if (groups == nullptr || input == nullptr || input->type != CU_DEV_RESOURCE_TYPE_SM) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (flags != 0 || least > input->sm.smCount) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    const unsigned grain = hopper::kPartition;
    const unsigned size = (std::max(least, grain) + grain - 1) / grain * grain;
    const unsigned fit = input->sm.smCount / size;
    if (fit == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    *groups = result == nullptr ? fit : std::min(fit, *groups);
    if (result == nullptr) return CUDA_SUCCESS;
    std::fill_n(result, *groups, multiprocessors(size));
    if (remaining != nullptr) *remaining = multiprocessors(input->sm.smCount - *groups * size);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                   unsigned count) {
  return green_call("cuDevResourceGenerateDesc", [&](Gpu&) {
    unsigned sms = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
      sms += resources[i].sm.smCount;
    }
    if (sms == 0 || sms > hopper::kMultiprocessors) return CUDA_ERROR_INVALID_VALUE;
    *description = describe(sms);
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc description, CUdevice device,
                          unsigned flags) {
  return green_call("cuGreenCtxCreate", [&](Gpu& gpu) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    // The flag is required: such a context always has its own default stream.
    if (flags != CU_GREEN_CTX_DEFAULT_STREAM || described(description) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    gpu.contexts.retain_primary();
    *out = gpu.contexts.add_green(described(description));
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  return green_call("cuGreenCtxDestroy", [&](Gpu& gpu) {
    for (const auto& [handle, stream] : gpu.streams.all()) {
      if (stream->green == green) {
        gpu.journal.complain("cuGreenCtxDestroy: a stream of the green context is alive");
        break;
      }
    }
    if (!gpu.contexts.remove_green(green)) return CUDA_ERROR_INVALID_CONTEXT;
    bool last = false;
    gpu.contexts.release_primary(&last);
    if (last) gpu.forget_all();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  return green_call("cuCtxFromGreenCtx", [&](Gpu& gpu) {
    const auto green = gpu.contexts.green(handle);
    if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *context = green->context;
    return CUDA_SUCCESS;
  });
}

CUresult cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx handle, unsigned flags, int priority) {
  return green_call("cuGreenCtxStreamCreate", [&](Gpu& gpu) {
    const auto green = gpu.contexts.green(handle);
    if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;  // required
    auto stream = std::make_shared<Stream>();
    stream->id = gpu.next_stream_id++;
    stream->flags = flags;
    stream->priority = std::clamp(priority, hopper::kGreatestPriority, hopper::kLeastPriority);
    stream->context = green->context;
    stream->green = handle;
    *out = gpu.streams.add(std::move(stream));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* green) {
  return green_call("cuStreamGetGreenCtx", [&](Gpu& gpu) {
    const auto stream = gpu.stream(handle, "cuStreamGetGreenCtx");
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *green = stream->green;
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
