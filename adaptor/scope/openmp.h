// Functions of the OpenMP runtime and of MKL that torch itself uses: there may be others in the
// process. Found at run time, because torch's headers name none of them.
#pragma once

namespace laneway::adaptor {

// Null where neither has a function of this name.
void* openmp_function(const char* name);

template <class Function>
Function* find_openmp(const char* name) {
  return reinterpret_cast<Function*>(openmp_function(name));
}

// Runs body(data) on a team of so many threads, of which the caller is one (GNU's runtime alone has
// it; null elsewhere).
using ParallelRegion = void(void (*body)(void*), void* data, unsigned threads, unsigned flags);
ParallelRegion* gnu_parallel();

}  // namespace laneway::adaptor
