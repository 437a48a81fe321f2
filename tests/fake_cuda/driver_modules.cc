// The driver API: modules and kernels of code that is compiled at run time. A kernel is its name;
// it does nothing when its turn comes.
#include <cuda.h>

#include <algorithm>
#include <string>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/handle_table.h"
#include "tests/fake_cuda/launch.h"

using laneway::fake_cuda::call;
using laneway::fake_cuda::Gpu;
using laneway::fake_cuda::HandleTable;
using laneway::fake_cuda::launch;

namespace {

struct Module {};

auto& modules() {
  static auto* const handles = new HandleTable<CUmodule, Module>(0xD00000);
  return *handles;
}
auto& functions() {
  static auto* const handles = new HandleTable<CUfunction, std::string>(0xE00000);
  return *handles;
}

CUresult not_faked(const char* name) {
  return call(name, Gpu::Needs::nothing, [&](Gpu& gpu) {
    return gpu.refuse(CUDA_ERROR_NOT_SUPPORTED, std::string(name) + ": the fake does not have it");
  });
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void*) {
  return call("cuModuleLoadData", [&](Gpu&) {
    *module = modules().add(std::make_shared<Module>());
    return CUDA_SUCCESS;
  });
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
CUresult cuModuleLoad(CUmodule*, const char*) { return not_faked("cuModuleLoad"); }
CUresult cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", [&](Gpu&) {
    return modules().take(module) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return call("cuModuleGetFunction", [&](Gpu&) {
    if (modules().find(module) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *function = functions().add(std::make_shared<std::string>(name));
    return CUDA_SUCCESS;
  });
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void**, void**) {
  std::string name;
  const CUresult result = call("cuLaunchKernel", [&](Gpu&) {
    const auto found = functions().find(function);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    name = *found;
    return CUDA_SUCCESS;
  });
  if (result != CUDA_SUCCESS) return result;
  return launch({name, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream});
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, CUstream stream,
                                   void** parameters) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                        parameters, nullptr);
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return call("cuFuncSetAttribute", [](Gpu&) { return CUDA_SUCCESS; });
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  return call("cuFuncGetAttribute", [&](Gpu&) {
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
  });
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return call("cuFuncSetCacheConfig", [](Gpu&) { return CUDA_SUCCESS; });
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int size, size_t) {
  return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", [&](Gpu&) {
    *blocks = std::clamp(2048 / std::max(size, 1), 1, 32);
    return CUDA_SUCCESS;
  });
}

// Named by torch's library for such code, called for nothing that runs here.
CUresult cuLinkCreate(unsigned, CUjit_option*, void**, CUlinkState*) {
  return not_faked("cuLinkCreate");
}
CUresult cuLinkAddData(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned,
                       CUjit_option*, void**) {
  return not_faked("cuLinkAddData");
}
CUresult cuLinkComplete(CUlinkState, void**, size_t*) { return not_faked("cuLinkComplete"); }
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return not_faked("cuTensorMapEncodeTiled");
}

}  // extern "C"
