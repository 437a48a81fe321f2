#include "adaptor/scope/thread_count.h"

#include <ATen/Parallel.h>

#include "adaptor/scope/openmp.h"
#include "base/check.h"

namespace laneway::adaptor {
namespace {

// Of the OpenMP and MKL that torch itself uses.
struct Setters {
  void (*set_openmp)(int) = nullptr;
  int (*set_mkl_local)(int) = nullptr;  // the former count; 0: as OpenMP. Null: torch without MKL
};

const Setters& setters() {
  static const Setters found = [] {
    const Setters setters{
        .set_openmp = find_openmp<void(int)>("omp_set_num_threads"),
        .set_mkl_local = find_openmp<int(int)>("MKL_Set_Num_Threads_Local"),
    };
    LW_CHECK(setters.set_openmp != nullptr, "torch's OpenMP runtime is not to be found");
    return setters;
  }();
  return found;
}

}  // namespace

// Asking comes first: it lets torch set this thread up, which it does once, before its first use.
ThreadCount::ThreadCount(int32_t wanted) : wanted_(wanted), before_(at::get_num_threads()) {
  if (setters().set_mkl_local != nullptr) mkl_before_ = setters().set_mkl_local(wanted_);
  if (before_ != wanted_) setters().set_openmp(wanted_);
}

ThreadCount::~ThreadCount() {
  if (setters().set_mkl_local != nullptr) setters().set_mkl_local(mkl_before_);
  if (before_ != wanted_) setters().set_openmp(before_);
}

}  // namespace laneway::adaptor
