#include "adaptor/scope/openmp.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace laneway::adaptor {

void* openmp_function(const char* name) {
  Dl_info torch{};
  if (::dladdr(reinterpret_cast<const void*>(&at::set_num_threads), &torch) == 0) return nullptr;
  void* library = ::dlopen(torch.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

ParallelRegion* gnu_parallel() {
  static ParallelRegion* const found = find_openmp<ParallelRegion>("GOMP_parallel");
  return found;
}

}  // namespace laneway::adaptor
