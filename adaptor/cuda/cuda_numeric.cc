#include "adaptor/cuda/cuda_numeric.h"

#include <ATen/Context.h>

#include "base/mutex.h"

namespace laneway::adaptor {
namespace {

class SharedBenchmark {
 public:
  void enter() LW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    at::Context& torch = at::globalContext();
    if (scopes_++ == 0) before_ = torch.benchmarkCuDNN();
    if (torch.benchmarkCuDNN()) torch.setBenchmarkCuDNN(false);
  }
  void leave() LW_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (--scopes_ == 0 && before_) at::globalContext().setBenchmarkCuDNN(true);
  }

 private:
  Mutex mutex_;
  int scopes_ LW_GUARDED_BY(mutex_) = 0;
  bool before_ LW_GUARDED_BY(mutex_) = false;
};

SharedBenchmark& shared_benchmark() {
  static auto* shared = new SharedBenchmark;  // outlives every lane
  return *shared;
}

}  // namespace

CudaNumericScope::CudaNumericScope() { shared_benchmark().enter(); }

CudaNumericScope::~CudaNumericScope() { shared_benchmark().leave(); }

}  // namespace laneway::adaptor
