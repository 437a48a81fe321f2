// A driver of another kind, as a library: LANEWAY_DRIVER_VERSION is what it says it is, and it has
// every function but LANEWAY_DRIVER_LACKS (a beginning of names), none of which can be called.
#include <cuda.h>

#include <cstring>

extern "C" {

__attribute__((visibility("default"))) CUresult cuDriverGetVersion(int* version) {
  *version = LANEWAY_DRIVER_VERSION;
  return CUDA_SUCCESS;
}

__attribute__((visibility("default"))) CUresult cuGetProcAddress(
    const char* name, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* found) {
  const bool lacks =
      std::strncmp(name, LANEWAY_DRIVER_LACKS, sizeof(LANEWAY_DRIVER_LACKS) - 1) == 0;
  *function = lacks ? nullptr : reinterpret_cast<void*>(&cuDriverGetVersion);
  *found = lacks ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

}  // extern "C"
