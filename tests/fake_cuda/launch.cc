#include "tests/fake_cuda/launch.h"

#include <driver_types.h>

#include "tests/fake_cuda/gpu.h"

namespace laneway::fake_cuda {
namespace {

bool is_launchable(const Launch& what) {
  const bool empty = what.grid.x == 0 || what.grid.y == 0 || what.grid.z == 0 ||
                     what.block.x == 0 || what.block.y == 0 || what.block.z == 0;
  const bool too_large = what.grid.x > 2147483647u || what.grid.y > 65535 || what.grid.z > 65535 ||
                         what.block.z > 64 ||
                         size_t{what.block.x} * what.block.y * what.block.z > 1024 ||
                         what.shared > 232448;
  return !empty && !too_large;
}

bool all_mapped(const Gpu& gpu, const std::vector<Operand>& operands) {
  for (const Operand& operand : operands) {
    const auto address = reinterpret_cast<CUdeviceptr>(operand.pointer);
    if (operand.bytes > 0 && gpu.memory.bytes(address, operand.bytes) == nullptr) return false;
  }
  return true;
}

}  // namespace

CUresult launch(const Launch& what) {
  Gpu& gpu = Gpu::get();
  MutexLock lock(gpu.mutex);
  const auto stream = gpu.stream(what.stream, what.name.c_str());
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!is_launchable(what)) {
    return gpu.refuse(static_cast<CUresult>(cudaErrorInvalidConfiguration),
                      what.name + ": no device takes such a grid or block");
  }
  if (!all_mapped(gpu, what.operands)) {
    return gpu.refuse(CUDA_ERROR_INVALID_VALUE, what.name + ": an operand is not mapped");
  }
  gpu.journal.kernel(what.name);
  Step step;
  step.what = "kernel " + what.name;
  step.run = [&gpu, name = what.name, operands = what.operands] {
    if (gpu.failing_kernel.second != CUDA_SUCCESS &&
        name.find(gpu.failing_kernel.first) != std::string::npos) {
      return std::exchange(gpu.failing_kernel.second, CUDA_SUCCESS);
    }
    return all_mapped(gpu, operands) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  return gpu.submit(stream, std::move(step));
}

}  // namespace laneway::fake_cuda
