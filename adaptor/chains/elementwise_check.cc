// Finds out which form of each elementwise kernel gives torch's bits on this processor.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include <array>
#include <cmath>
#include <cstring>

#include "adaptor/chains/elementwise_kernels.h"
#include "base/random.h"

namespace laneway::adaptor {
namespace {

// Floats over many magnitudes, with both zeros, denormals and infinities among them.
at::Tensor random_floats(int64_t count, Random& random) {
  at::Tensor tensor = at::empty({count}, at::kFloat);
  float* data = tensor.mutable_data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    const double magnitude =
        std::ldexp(1.0 + random.unit(), static_cast<int>(random.between(-30, 20)));
    data[i] = static_cast<float>(random.chance(0.5) ? magnitude : -magnitude);
  }
  constexpr float kSpecial[] = {0.0f, -0.0f, 1e-42f, INFINITY, 1.0f};
  for (const float value : kSpecial) {
    data[random.below(static_cast<uint64_t>(count))] = value;
  }
  return tensor;
}

at::Tensor number(float value) {
  at::Tensor tensor = at::scalar_tensor(static_cast<double>(value), at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

struct Sample {
  at::Tensor a, b, c;
  float s, t;
};

at::Tensor by_torch(ElementwiseOp op, const Sample& x) {
  switch (op) {
    case ElementwiseOp::mul_number: return at::mul(x.a, number(x.s));
    case ElementwiseOp::mul: return at::mul(x.a, x.b);
    case ElementwiseOp::add_number: return at::add(x.a, number(x.s));
    case ElementwiseOp::add: return at::add(x.a, x.b, x.t);
    case ElementwiseOp::div_number: return at::div(x.a, number(x.s));
    case ElementwiseOp::div: return at::div(x.a, x.b);
    case ElementwiseOp::lerp: return at::lerp(x.a, x.b, x.s);
    case ElementwiseOp::addcmul: return at::addcmul(x.a, x.b, x.c, x.s);
    case ElementwiseOp::addcdiv: return at::addcdiv(x.a, x.b, x.c, x.s);
  }
  return x.a;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const float* x = a.const_data_ptr<float>();
  const float* y = b.const_data_ptr<float>();
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    if (std::memcmp(&x[i], &y[i], sizeof(float)) != 0) return false;
  }
  return true;
}

bool equals_torch(ElementwiseOp op, ElementwiseKernel kernel) {
  Random random(20);
  // Shorter than a vector, with and without a rest, longer than torch's blocks.
  for (const int64_t count : {1, 3, 7, 8, 16, 17, 31, 33, 64, 100, 257, 1'023, 4'099}) {
    for (int round = 0; round < 3; ++round) {
      // The numbers of optimizers: rates and decays, near zero, near one, negative.
      const float near_zero = static_cast<float>(random.unit() * 0.01 - 0.002);
      const float near_one = static_cast<float>(1.0 - random.unit() * 0.2);
      Sample x{random_floats(count, random), random_floats(count, random),
               random_floats(count, random), round == 0 ? near_zero : near_one,
               round == 1 ? 1.0f : near_zero};
      const at::Tensor expected = by_torch(op, x);
      const at::Tensor got = at::empty({count}, at::kFloat);
      kernel({.out = got.mutable_data_ptr<float>(),
              .a = x.a.const_data_ptr<float>(),
              .b = x.b.const_data_ptr<float>(),
              .c = x.c.const_data_ptr<float>(),
              .s = x.s,
              .t = x.t},
             static_cast<size_t>(count));
      if (!same_bits(expected, got)) return false;
    }
  }
  return true;
}

using Chosen = std::array<std::optional<ElementwiseKernel>, kElementwiseOpCount>;

Chosen choose_forms() {
  Chosen chosen;
  for (size_t op = 0; op < kElementwiseOpCount; ++op) {
    const auto kind = static_cast<ElementwiseOp>(op);
    for (size_t form = 0; form < elementwise_form_count(kind) && !chosen[op]; ++form) {
      const ElementwiseKernel kernel = elementwise_form(kind, form);
      if (equals_torch(kind, kernel)) chosen[op] = kernel;
    }
  }
  return chosen;
}

}  // namespace

std::optional<ElementwiseKernel> elementwise_kernel(ElementwiseOp op) {
  static const Chosen chosen = choose_forms();
  return chosen[static_cast<size_t>(op)];
}

}  // namespace laneway::adaptor
