#include "tests/fake_cuda/kernels.h"

namespace laneway::fake_cuda {

Kernels& Kernels::get() {
  static Kernels* const kernels = new Kernels;
  return *kernels;
}

void Kernels::add_kernel(const void* host, const char* name) {
  MutexLock lock(mutex_);
  kernels_[host].name = name;
}

void Kernels::add_variable(const void* host, size_t size) {
  MutexLock lock(mutex_);
  variables_[host].size = size;
}

const Kernel* Kernels::kernel(const void* host) {
  MutexLock lock(mutex_);
  const auto found = kernels_.find(host);
  return found == kernels_.end() ? nullptr : &found->second;
}

Variable* Kernels::variable(const void* host) {
  MutexLock lock(mutex_);
  const auto found = variables_.find(host);
  return found == variables_.end() ? nullptr : &found->second;
}

}  // namespace laneway::fake_cuda
