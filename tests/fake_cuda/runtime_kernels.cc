// The runtime API: what compiled device code registers and calls, and kernel launches. A kernel
// does nothing when its turn comes; its name is counted.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "tests/fake_cuda/gpu.h"
#include "tests/fake_cuda/kernels.h"
#include "tests/fake_cuda/launch.h"
#include "tests/fake_cuda/runtime.h"

using laneway::fake_cuda::Kernel;
using laneway::fake_cuda::Kernels;
using laneway::fake_cuda::launch;
using laneway::fake_cuda::Launch;
using laneway::fake_cuda::runtime;
using laneway::fake_cuda::Variable;
using laneway::fake_cuda::Wants;

namespace {

// What <<<…>>> says, on its way to the launch. Nothing to destroy, as of everything of a thread
// here: libraries still call when the thread's objects are gone.
struct Configuration {
  dim3 grid, block;
  size_t shared;
  CUstream stream;
};
struct Configurations {
  static constexpr size_t kMaxDepth = 16;
  Configuration pushed[kMaxDepth];
  size_t depth;
};
thread_local Configurations configurations{};

CUresult launch_kernel(const Kernel* kernel, Launch how) {
  if (kernel == nullptr) return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
  how.name = kernel->name;
  return launch(how);
}

// Variables get their device memory when they are first asked for.
CUresult find_variable(const void* symbol, Variable** found) {
  *found = Kernels::get().variable(symbol);
  if (*found == nullptr) return static_cast<CUresult>(cudaErrorInvalidSymbol);
  if ((*found)->address != 0) return CUDA_SUCCESS;
  return cuMemAlloc(&(*found)->address, std::max<size_t>((*found)->size, 1));
}

int blocks_that_fit(int block_size) {
  return std::max(1, std::min(32, 2048 / std::max(block_size, 1)));
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* binary = nullptr;
  return &binary;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Kernels::get().add_kernel(host, name);
}
void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t size, int, int) {
  Kernels::get().add_variable(host, size);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  if (configurations.depth == Configurations::kMaxDepth) return 1;
  configurations.pushed[configurations.depth++] = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.depth == 0) return cudaErrorMissingConfiguration;
  const Configuration& pushed = configurations.pushed[--configurations.depth];
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

// The handle of a kernel is the address of what is known of it.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  const Kernel* found = Kernels::get().kernel(host);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(found));
  return found != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**, size_t shared,
                               cudaStream_t stream) {
  return runtime("cudaLaunchKernel", [&] {
    return launch_kernel(reinterpret_cast<const Kernel*>(kernel),
                         {"", grid, block, shared, stream});
  });
}
cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void**, size_t shared,
                             cudaStream_t stream) {
  return runtime("cudaLaunchKernel", [&] {
    return launch_kernel(Kernels::get().kernel(host), {"", grid, block, shared, stream});
  });
}
cudaError_t cudaLaunchCooperativeKernel(const void* host, dim3 grid, dim3 block, void**,
                                        size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(host, grid, block, nullptr, shared, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* host, void**) {
  return cudaLaunchKernel(host, how->gridDim, how->blockDim, nullptr, how->dynamicSmemBytes,
                          how->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
  return runtime("cudaFuncGetAttributes", [&] {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = 90;
    attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = 49152;
    return Kernels::get().kernel(host) != nullptr
               ? CUDA_SUCCESS
               : static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
  });
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return runtime("cudaFuncSetAttribute", [] { return CUDA_SUCCESS; });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int block_size, size_t,
                                                                   unsigned) {
  return runtime("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    *blocks = blocks_that_fit(block_size);
    return CUDA_SUCCESS;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host,
                                                          int block_size, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size, shared,
                                                                0);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return runtime("cudaGetSymbolAddress", [&] {
    Variable* variable = nullptr;
    const CUresult result = find_variable(symbol, &variable);
    if (result == CUDA_SUCCESS) *address = reinterpret_cast<void*>(variable->address);
    return result;
  });
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return runtime("cudaMemcpyToSymbol", [&] {
    Variable* variable = nullptr;
    const CUresult result = find_variable(symbol, &variable);
    if (result != CUDA_SUCCESS) return result;
    if (offset + bytes > variable->size) return CUDA_ERROR_INVALID_VALUE;
    void* const to = reinterpret_cast<void*>(variable->address + offset);
    return static_cast<CUresult>(cudaMemcpy(to, from, bytes, kind));
  });
}

}  // extern "C"
