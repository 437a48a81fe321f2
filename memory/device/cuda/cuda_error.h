// Functions that make an Error of a driver's result: its name and text, the attempted call, the
// remedy; and that tell which errors last.
#pragma once

#include <cuda.h>

#include <string>

#include "base/result.h"
#include "memory/device/cuda/cuda_driver.h"

namespace laneway::memory {

// After such an error every further call of this process fails: only a new process can use the
// device again.
bool cuda_error_lasts(CUresult result);

// Requires: `result` is not success. Codes: device_lost for errors that last, out_of_memory,
// unsupported where the platform cannot do or does not allow the call, failed otherwise.
// `attempted` begins the sentence ("copy to the device"), `device` is the device's name.
Error cuda_error(const CudaDriver& driver, CUresult result, const std::string& attempted,
                 const std::string& device);

// "CUDA_ERROR_ASSERT (device-side assert triggered)".
std::string cuda_error_text(const CudaDriver& driver, CUresult result);

}  // namespace laneway::memory
