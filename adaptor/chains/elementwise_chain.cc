#include "adaptor/chains/elementwise_chain.h"

#include <ATen/ops/sqrt.h>

#include <algorithm>
#include <utility>

namespace laneway::adaptor {
namespace {

double number_of(const ChainNumber& number, const ValueTable& values) {
  const double plain = number.value == lanes::kNoValue ? number.constant
                                                       : values[number.value].toScalar().toDouble();
  return number.negated ? -plain : plain;
}

lanes::Value flat_floats(size_t count) {
  lanes::Value value;
  value.dtype = lanes::DType::float32;
  value.sizes = {static_cast<int64_t>(count)};
  value.strides = {1};
  return value;
}

}  // namespace

ElementwiseChain::RootViews::RootViews(size_t count)
    : in(count * sizeof(float)),
      out(count * sizeof(float)),
      in_view(in.view(flat_floats(count), 0)),
      out_view(out.view(flat_floats(count), 0)) {}

ElementwiseChain::RootViews::RootViews(const RootViews& other)
    : RootViews(other.in.bytes() / sizeof(float)) {}

ElementwiseChain::ElementwiseChain(std::vector<int64_t> sizes, std::vector<int64_t> strides,
                                   std::vector<lanes::ValueIndex> tensors,
                                   std::vector<ChainStep> steps, std::vector<Result> results)
    : sizes_(std::move(sizes)),
      strides_(std::move(strides)),
      tensors_(std::move(tensors)),
      steps_(std::move(steps)),
      results_(std::move(results)),
      bases_(tensors_.size()),
      numbers_(steps_.size()) {
  for (const int64_t size : sizes_) elements_ *= static_cast<size_t>(size);
  size_t temporaries = 0;
  bool has_root = false;
  for (const ChainStep& step : steps_) {
    if (step.out.temporary) temporaries = std::max(temporaries, size_t{step.out.index} + 1);
    has_root = has_root || step.is_sqrt;
  }
  temporaries_.assign(temporaries, std::vector<float>(std::min(elements_, kTileElements)));
  if (!has_root) return;
  roots_.emplace_back(std::min(elements_, kTileElements));
  const size_t rest = elements_ % kTileElements;
  if (elements_ > kTileElements && rest > 0) roots_.emplace_back(rest);
}

bool ElementwiseChain::run(ValueTable& values) {
  if (!take_operands(values)) return false;
  take_numbers(values);
  for (size_t offset = 0; offset < elements_; offset += kTileElements) {
    run_tile(offset, std::min(kTileElements, elements_ - offset));
  }
  for (const Result& result : results_) values[result.value] = values[tensors_[result.tensor]];
  return true;
}

bool ElementwiseChain::take_operands(const ValueTable& values) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!values[tensors_[i]].isTensor()) return false;
    const at::Tensor& tensor = values[tensors_[i]].toTensor();
    if (!tensor.defined() || tensor.scalar_type() != at::kFloat ||
        tensor.sizes() != c10::IntArrayRef(sizes_) ||
        tensor.strides() != c10::IntArrayRef(strides_)) {
      return false;
    }
    bases_[i] = static_cast<float*>(tensor.unsafeGetTensorImpl()->mutable_data());
  }
  return true;
}

void ElementwiseChain::take_numbers(const ValueTable& values) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    // As torch does: computed in double by Python, rounded once to the tensors' type.
    numbers_[i] = {static_cast<float>(number_of(steps_[i].s, values)),
                   static_cast<float>(number_of(steps_[i].t, values))};
  }
}

float* ElementwiseChain::address(const ChainOperand& operand, size_t offset) {
  return operand.temporary ? temporaries_[operand.index].data() : bases_[operand.index] + offset;
}

void ElementwiseChain::run_tile(size_t offset, size_t count) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const ChainStep& step = steps_[i];
    if (step.is_sqrt) {
      square_root(address(step.out, offset), address(step.a, offset), count);
      continue;
    }
    step.kernel({.out = address(step.out, offset),
                 .a = address(step.a, offset),
                 .b = address(step.b, offset),
                 .c = address(step.c, offset),
                 .s = numbers_[i].first,
                 .t = numbers_[i].second},
                count);
  }
}

void ElementwiseChain::square_root(float* out, float* in, size_t count) {
  RootViews& views = count * sizeof(float) == roots_[0].in.bytes() ? roots_[0] : roots_[1];
  views.in.rebind(in);
  views.out.rebind(out);
  at::sqrt_out(views.out_view, views.in_view);
}

}  // namespace laneway::adaptor
