#include "memory/device/cuda/cuda_error.h"

namespace laneway::memory {
namespace {

struct Kind {
  ErrorCode code;
  const char* remedy;
};

Kind kind_of(CUresult result) {
  if (result == CUDA_ERROR_NOT_INITIALIZED) {
    return {ErrorCode::device_lost,
            "CUDA cannot be used in a child made by fork(): start a program of its own"};
  }
  if (cuda_error_lasts(result)) {
    return {ErrorCode::device_lost,
            "the device failed for good: this process cannot use it any more, a new one can"};
  }
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return {ErrorCode::out_of_memory,
              "ask for less, or free device memory first, other processes' too"};
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
      return {ErrorCode::unsupported, "this driver, device or container does not have it"};
    case CUDA_ERROR_NO_DEVICE:
      return {ErrorCode::unsupported, "use --device host where there is no NVIDIA GPU"};
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return {
          ErrorCode::unavailable,
          "another process has the device for itself (compute mode): end it, or change the mode "
          "with nvidia-smi -c"};
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return {ErrorCode::unavailable,
              "a daemon that the device needs is not running: on machines whose GPUs are joined by "
              "NVSwitch start nvidia-fabricmanager, of the driver's version"};
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
      return {ErrorCode::unavailable,
              "look at MPS's daemon (nvidia-cuda-mps-control) and at how many processes it serves, "
              "or unset CUDA_MPS_PIPE_DIRECTORY and end the daemon"};
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return {ErrorCode::unsupported,
              "the driver's library and its kernel module do not go together: install one driver "
              "and restart the machine"};
    default: return {ErrorCode::failed, ""};
  }
}

}  // namespace

bool cuda_error_lasts(CUresult result) {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_NOT_INITIALIZED:  // after cuInit: a child of fork()
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:  // somebody reset the device under us
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE: return true;
    default: return false;
  }
}

std::string cuda_error_text(const CudaDriver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS) name = nullptr;
  if (driver.cuGetErrorString(result, &text) != CUDA_SUCCESS) text = nullptr;
  const std::string known =
      name != nullptr ? name : "CUDA error " + std::to_string(static_cast<int>(result));
  return text == nullptr ? known : known + " (" + text + ")";
}

Error cuda_error(const CudaDriver& driver, CUresult result, const std::string& attempted,
                 const std::string& device) {
  const Kind kind = kind_of(result);
  std::string message = attempted + " on " + device + ": " + cuda_error_text(driver, result);
  if (*kind.remedy != '\0') message += std::string(": ") + kind.remedy;
  return Error{kind.code, std::move(message)};
}

}  // namespace laneway::memory
