// A launch: work in a stream that stands for a kernel or for a call of one of CUDA's libraries. It
// does nothing when its turn comes but look that the memory it was told of is still there.
#pragma once

#include <cuda.h>
#include <vector_types.h>

#include <string>
#include <vector>

namespace laneway::fake_cuda {

// Device memory that a library call was given.
struct Operand {
  const void* pointer = nullptr;
  size_t bytes = 0;
};

struct Launch {
  std::string name;
  dim3 grid{1, 1, 1};
  dim3 block{1, 1, 1};
  size_t shared = 0;
  CUstream stream = nullptr;
  std::vector<Operand> operands = {};
};

// Takes the Gpu's mutex. Errors: invalid configuration (9) for a shape that no device takes,
// invalid_value for operands that are not mapped, invalid_handle for a stream that is none.
CUresult launch(const Launch& what);

}  // namespace laneway::fake_cuda
