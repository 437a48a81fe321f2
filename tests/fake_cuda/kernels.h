// Kernels: what loaded libraries registered with the runtime, kernels and variables of the device,
// by the addresses that stand for them on the host. Thread-safe: libraries are loaded at any time.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <unordered_map>

#include "base/mutex.h"

namespace laneway::fake_cuda {

struct Kernel {
  std::string name;  // mangled, as registered
};

struct Variable {
  size_t size = 0;
  CUdeviceptr address = 0;  // 0: not yet in device memory
};

class Kernels {
 public:
  static Kernels& get();

  void add_kernel(const void* host, const char* name);
  void add_variable(const void* host, size_t size);
  // Null when nothing was registered under that address. What is found stays.
  const Kernel* kernel(const void* host);
  Variable* variable(const void* host);

 private:
  Mutex mutex_;
  std::unordered_map<const void*, Kernel> kernels_ LW_GUARDED_BY(mutex_);
  std::unordered_map<const void*, Variable> variables_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::fake_cuda
