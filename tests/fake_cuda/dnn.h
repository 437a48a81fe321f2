// What the fake keeps of cuDNN: handles with their stream. Descriptions of tensors stay the real
// library's; whatever takes a handle is the fake's.
#pragma once

#include <cudnn.h>

#include <vector>

#include "tests/fake_cuda/launch.h"

namespace laneway::fake_cuda {

// Launches in the handle's stream.
cudnnStatus_t launch_dnn(cudnnHandle_t handle, const char* name, std::vector<Operand> operands);

// Success when the handle is one; what asks for a size ends here.
cudnnStatus_t check_dnn(const char* name, cudnnHandle_t handle);

cudnnStatus_t refuse_dnn(const char* name);

// Of tensors whose extent is not looked at: that they are mapped where they begin.
inline Operand beginning(const void* pointer) {
  return {pointer, pointer == nullptr ? size_t{0} : size_t{1}};
}

}  // namespace laneway::fake_cuda
