// What the fake keeps of cuBLAS: handles with their stream and workspace, and the extent of
// matrices, so that a call can be held to memory that is there. Guarded by the Gpu's mutex.
#pragma once

#include <cublas_v2.h>
#include <library_types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tests/fake_cuda/handle_table.h"
#include "tests/fake_cuda/launch.h"

namespace laneway::fake_cuda {

struct BlasHandle {
  CUstream stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  void* workspace = nullptr;  // null: cuBLAS would use one of its own
  size_t workspace_bytes = 0;
};

HandleTable<cublasHandle_t, BlasHandle>& blas_handles();

size_t bytes_of(cudaDataType type);
// The bytes from the first to the last element of a batch of column-major matrices.
struct Matrix {
  const void* pointer = nullptr;
  size_t element = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading = 0;
  int64_t stride = 0;
  int64_t batch = 1;
};
Operand operand(const Matrix& matrix);

// Launches in the handle's stream, with its workspace as one more operand.
cublasStatus_t launch_blas(cublasHandle_t handle, const char* name, std::vector<Operand> operands);
cublasStatus_t blas_status(CUresult result);

}  // namespace laneway::fake_cuda
