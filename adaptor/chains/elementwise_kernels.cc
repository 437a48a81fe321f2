#include "adaptor/chains/elementwise_kernels.h"

#include <cmath>
#include <iterator>

// One binary for every x86-64: the widest vectors that the processor has. The arithmetic is IEEE
// per element, so the width cannot change a bit; this file is compiled with -ffp-contract=off, so
// that only what is written as fma is one.
#define LW_VECTORIZED \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))

namespace laneway::adaptor {
namespace {

#define LW_KERNEL(name, formula)                                           \
  LW_VECTORIZED void name(const ElementwiseOperands& operands, size_t n) { \
    float* out = operands.out;                                             \
    const float* a = operands.a;                                           \
    [[maybe_unused]] const float* b = operands.b;                          \
    [[maybe_unused]] const float* c = operands.c;                          \
    [[maybe_unused]] const float s = operands.s;                           \
    [[maybe_unused]] const float t = operands.t;                           \
    _Pragma("GCC ivdep") for (size_t i = 0; i < n; ++i) out[i] = formula;  \
  }

LW_KERNEL(mul_number, a[i] * s)
LW_KERNEL(mul_arrays, a[i] * b[i])
LW_KERNEL(add_number, a[i] + s)
LW_KERNEL(add_fused, __builtin_fmaf(b[i], t, a[i]))
LW_KERNEL(add_apart, a[i] + t * b[i])
LW_KERNEL(div_number, a[i] / s)
LW_KERNEL(div_arrays, a[i] / b[i])
LW_KERNEL(lerp_low_fused, __builtin_fmaf(s, b[i] - a[i], a[i]))
LW_KERNEL(lerp_low_apart, a[i] + s * (b[i] - a[i]))
LW_KERNEL(lerp_high_fused, __builtin_fmaf(s - 1.0f, b[i] - a[i], b[i]))
LW_KERNEL(lerp_high_apart, b[i] - (b[i] - a[i]) * (1.0f - s))
LW_KERNEL(addcmul_fused, __builtin_fmaf(s* b[i], c[i], a[i]))
LW_KERNEL(addcmul_apart, a[i] + s * b[i] * c[i])
LW_KERNEL(addcmul_late, __builtin_fmaf(s, b[i] * c[i], a[i]))
LW_KERNEL(addcdiv_first, a[i] + s * b[i] / c[i])
LW_KERNEL(addcdiv_late, __builtin_fmaf(s, b[i] / c[i], a[i]))

#undef LW_KERNEL

// torch switches sides at one half, so that the result is exact at both ends.
void lerp_fused(const ElementwiseOperands& operands, size_t n) {
  (std::fabs(operands.s) < 0.5f ? lerp_low_fused : lerp_high_fused)(operands, n);
}

void lerp_apart(const ElementwiseOperands& operands, size_t n) {
  (std::fabs(operands.s) < 0.5f ? lerp_low_apart : lerp_high_apart)(operands, n);
}

struct Forms {
  ElementwiseKernel kernels[3];
  size_t count;
};

// By ElementwiseOp.
constexpr Forms kForms[] = {
    {{mul_number}, 1},
    {{mul_arrays}, 1},
    {{add_number}, 1},
    {{add_fused, add_apart}, 2},
    {{div_number}, 1},
    {{div_arrays}, 1},
    {{lerp_fused, lerp_apart}, 2},
    {{addcmul_fused, addcmul_apart, addcmul_late}, 3},
    {{addcdiv_first, addcdiv_late}, 2},
};
static_assert(std::size(kForms) == kElementwiseOpCount);

}  // namespace

size_t elementwise_form_count(ElementwiseOp op) { return kForms[static_cast<size_t>(op)].count; }

ElementwiseKernel elementwise_form(ElementwiseOp op, size_t form) {
  return kForms[static_cast<size_t>(op)].kernels[form];
}

}  // namespace laneway::adaptor
