// The part of a graph's numeric state that only CUDA has. NumericScope
// (adaptor/scope/numeric_context.h) sets the float32 precision of products and deterministic
// algorithms for all devices; this scope forbids cuDNN to try algorithms out, because the fastest
// one, and with it the bits, would differ from one iteration to the next. Reduced precision in
// reductions is the process's, as in eager execution.
//
// The flag is process-wide in torch: the first scope sets it, and the last one restores the value
// that the first found.
#pragma once

namespace laneway::adaptor {

class CudaNumericScope {
 public:
  CudaNumericScope();
  ~CudaNumericScope();
  CudaNumericScope(const CudaNumericScope&) = delete;
  CudaNumericScope& operator=(const CudaNumericScope&) = delete;
};

}  // namespace laneway::adaptor
