// Elementwise arithmetic on float32, bit for bit what torch's CPU operators compute: the building
// blocks of ElementwiseChain. Where a formula can be evaluated with or without contraction into
// fused multiply-adds, both forms are here. The process compares them once with torch to find the
// form that torch's build uses on this processor; an operator that neither form matches is left to
// torch. Torch always computes square roots (its library does not round them correctly).
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace laneway::adaptor {

// Operands a, b, c are arrays, s and t numbers.
enum class ElementwiseOp : uint8_t {
  mul_number,  // a * s
  mul,         // a * b
  add_number,  // a + s
  add,         // a + t * b
  div_number,  // a / s
  div,         // a / b
  lerp,        // a + s * (b - a), from b's side for s >= 0.5
  addcmul,     // a + s * b * c
  addcdiv,     // a + s * b / c
};
inline constexpr size_t kElementwiseOpCount = 9;

struct ElementwiseOperands {
  float* out = nullptr;  // may be a
  const float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;
  float s = 0;
  float t = 1;
};

// Computes `count` elements.
using ElementwiseKernel = void (*)(const ElementwiseOperands& operands, size_t count);

// The form of `op` that equals torch's operator on this processor, or nothing. The first call
// compares all forms with torch (about a millisecond).
std::optional<ElementwiseKernel> elementwise_kernel(ElementwiseOp op);

// The forms that are compared, for tests.
size_t elementwise_form_count(ElementwiseOp op);
ElementwiseKernel elementwise_form(ElementwiseOp op, size_t form);

}  // namespace laneway::adaptor
