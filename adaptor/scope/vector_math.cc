#include "adaptor/scope/vector_math.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/trunc.h>

#include "adaptor/scope/fork_gate.h"
#include "adaptor/scope/numeric_context.h"

namespace laneway::adaptor {

void prepare_vector_math() {
  using Unary = at::Tensor (*)(const at::Tensor&);
  // Those that ATen/cpu/vml.h gives to MKL.
  static constexpr Unary kFunctions[] = {
      at::acos, at::asin,  at::atan, at::cos, at::erf,  at::erfc, at::erfinv, at::exp,
      at::log,  at::log10, at::log2, at::sin, at::sqrt, at::tan,  at::tanh,   at::trunc};
  const TorchUse use;
  const DispatchScope below_modes;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor one = at::full({1}, 0.5, at::TensorOptions(at::kCPU).dtype(dtype));
    for (const Unary function : kFunctions) function(one);
  }
}

}  // namespace laneway::adaptor
