// Elementwise arithmetic on float32, bit for bit what torch's CPU operators compute: the building
// blocks of ElementwiseChain. Where a formula can be evaluated with or without contraction into
// fused multiply-adds, both forms stand here; which one torch's build uses on this processor is
// found out by comparing with torch once per process, and an operator that neither form matches is
// left to torch. Square roots are always torch's own (its library's are not rounded correctly).
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

// The form of `op` that equals torch's operator here, or nothing. The first call compares all of
// them with torch (about a millisecond).
std::optional<ElementwiseKernel> elementwise_kernel(ElementwiseOp op);

// All forms that are tried, for tests.
size_t elementwise_form_count(ElementwiseOp op);
ElementwiseKernel elementwise_form(ElementwiseOp op, size_t form);

}  // namespace laneway::adaptor
