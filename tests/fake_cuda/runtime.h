// How the functions of CUDA's runtime API are written here: each makes the primary context current
// where the thread has none, as the runtime does, is carried out by the fake driver, and remembers
// its error for cudaGetLastError.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

namespace laneway::fake_cuda {

enum class Wants : uint8_t { nothing, device, context };

// Counts the call and gives the thread what it wants; the error that answers it at once.
CUresult enter_runtime(const char* name, Wants wants);
// The runtime's error for the driver's (their numbers agree); remembered for this thread when it is
// one.
cudaError_t remember(CUresult result);

template <typename Body>
cudaError_t runtime(const char* name, Wants wants, Body body) {
  const CUresult refused = enter_runtime(name, wants);
  return remember(refused == CUDA_SUCCESS ? body() : refused);
}

template <typename Body>
cudaError_t runtime(const char* name, Body body) {
  return runtime(name, Wants::context, std::move(body));
}

// Answers not supported, with a complaint that names the function.
cudaError_t not_faked(const char* name);

inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace laneway::fake_cuda
