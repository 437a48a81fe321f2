// What a graph's numeric state means on CUDA beyond NumericScope (adaptor/scope/numeric_context.h,
// which sets the precision of matrix products and deterministic algorithms for all devices): cuDNN
// is not to try algorithms out, because what is fastest, and with it the bits, would differ from
// one iteration to the next. What else torch has (TF32 in convolutions, reduced precision in
// reductions) is the process's, as in eager.
//
// The flag is process-wide in torch: the first scope in sets it, the last one out puts back what
// the first found.
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
