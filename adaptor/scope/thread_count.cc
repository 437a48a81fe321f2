#include "adaptor/scope/thread_count.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include "adaptor/scope/fork_gate.h"
#include "base/check.h"

namespace laneway::adaptor {
namespace {

constexpr int kPauseSoft = 1;  // omp_pause_soft: the caller's own settings stay

// Of the OpenMP and MKL that torch itself uses: there may be others in the process.
struct Setters {
  void (*set_openmp)(int) = nullptr;
  int (*pause_openmp)(int) = nullptr;
  int (*set_mkl_local)(int) = nullptr;  // the former count; 0: as OpenMP. Null: torch without MKL
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

Setters find_setters() {
  Setters found;
  Dl_info torch{};
  if (::dladdr(reinterpret_cast<const void*>(&at::set_num_threads), &torch) == 0) return found;
  void* library = ::dlopen(torch.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return found;
  find(library, "omp_set_num_threads", found.set_openmp);
  find(library, "omp_pause_resource_all", found.pause_openmp);
  find(library, "MKL_Set_Num_Threads_Local", found.set_mkl_local);
  return found;
}

const Setters& setters() {
  static const Setters found = [] {
    Setters setters = find_setters();
    LW_CHECK(setters.set_openmp != nullptr && setters.pause_openmp != nullptr,
             "torch's OpenMP runtime is not to be found, or is older than OpenMP 5");
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

void end_thread_team() {
  if (thread_has_forked()) return;
  const TorchUse use;
  (void)setters().pause_openmp(kPauseSoft);  // refused within a parallel region
}

}  // namespace laneway::adaptor
