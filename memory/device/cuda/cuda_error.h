// CudaError: what the driver answers, as an Error: its name and text, what was attempted, the
// remedy; and which errors never go away. Functions, because the driver's errors are numbers.
#pragma once

#include <cuda.h>

#include <string>

#include "base/result.h"
#include "memory/device/cuda/cuda_driver.h"

namespace laneway::memory {

// After such an error every further call of this process fails: only a new process can use the
// device again.
bool cuda_error_lasts(CUresult result);

// `result` is not success. Codes: device_lost for those that last, out_of_memory, unsupported where
// the platform cannot or may not, failed otherwise. `attempted` begins the sentence ("copy to the
// device"), `device` is its name.
Error cuda_error(const CudaDriver& driver, CUresult result, const std::string& attempted,
                 const std::string& device);

// "CUDA_ERROR_ASSERT (device-side assert triggered)".
std::string cuda_error_text(const CudaDriver& driver, CUresult result);

}  // namespace laneway::memory
