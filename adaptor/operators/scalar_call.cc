#include "adaptor/operators/scalar_call.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <map>
#include <stdexcept>

namespace laneway::adaptor {
namespace {

constexpr const char* kReadNumber = "aten::_local_scalar_dense";

constexpr auto kAdd = [](int64_t a, int64_t b, int64_t* r) {
  return __builtin_add_overflow(a, b, r);
};
constexpr auto kSub = [](int64_t a, int64_t b, int64_t* r) {
  return __builtin_sub_overflow(a, b, r);
};
constexpr auto kMul = [](int64_t a, int64_t b, int64_t* r) {
  return __builtin_mul_overflow(a, b, r);
};

double as_double(const c10::IValue& number) { return number.toScalar().toDouble(); }

bool both_integers(const c10::IValue& a, const c10::IValue& b) { return a.isInt() && b.isInt(); }

// `a op b` over integers; throws when 64 bits do not hold it.
template <class Operation>
c10::IValue exact(int64_t a, int64_t b, const Operation& overflows) {
  int64_t result = 0;
  if (overflows(a, b, &result)) {
    throw std::overflow_error("the number " + std::to_string(a) + " combined with " +
                              std::to_string(b) + " exceeds 64 bits");
  }
  return result;
}

c10::IValue read_number(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return tensor.item();
  switch (tensor.scalar_type()) {
    case c10::ScalarType::Float: return static_cast<double>(*tensor.const_data_ptr<float>());
    case c10::ScalarType::Double: return *tensor.const_data_ptr<double>();
    case c10::ScalarType::Long: return *tensor.const_data_ptr<int64_t>();
    default: return tensor.item();
  }
}

// Python's min() and max(): the second only where it is below (above) the first, so that a NaN is
// taken when it comes first.
c10::IValue smaller(const c10::IValue& a, const c10::IValue& b) {
  if (both_integers(a, b)) return b.toInt() < a.toInt() ? b : a;
  return as_double(b) < as_double(a) ? as_double(b) : as_double(a);
}
c10::IValue larger(const c10::IValue& a, const c10::IValue& b) {
  if (both_integers(a, b)) return b.toInt() > a.toInt() ? b : a;
  return as_double(b) > as_double(a) ? as_double(b) : as_double(a);
}

}  // namespace

bool ScalarCall::handles(const lanes::Node& node) {
  return node.op.starts_with("scalar::") || node.op == kReadNumber;
}

Result<ScalarCall> ScalarCall::resolve(const lanes::Graph& graph, size_t node_index) {
  static const std::map<std::string, std::pair<Operation, size_t>> kOperations = {
      {kReadNumber, {Operation::read, 1}},  {"scalar::add", {Operation::add, 2}},
      {"scalar::sub", {Operation::sub, 2}}, {"scalar::mul", {Operation::mul, 2}},
      {"scalar::div", {Operation::div, 2}}, {"scalar::pow", {Operation::pow, 2}},
      {"scalar::min", {Operation::min, 2}}, {"scalar::max", {Operation::max, 2}},
      {"scalar::neg", {Operation::neg, 1}}, {"scalar::sqrt", {Operation::sqrt, 1}},
  };
  const lanes::Node& node = graph.nodes[node_index];
  const auto refuse = [&](const std::string& what) {
    return Error{ErrorCode::invalid_graph,
                 "node " + std::to_string(node_index) + " (" + node.op + "): " + what +
                     (node.source.empty() ? "" : "; from " + node.source)};
  };
  const auto found = kOperations.find(node.op);
  if (found == kOperations.end()) return refuse("there is no such operation on numbers");
  const auto [operation, arity] = found->second;
  if (node.arguments.size() != arity || node.results.size() != 1 || node.results[0].is_list ||
      node.results[0].values.size() != 1) {
    return refuse("takes " + std::to_string(arity) + " arguments and gives one number");
  }
  ScalarCall call;
  call.operation_ = operation;
  call.result_ = node.results[0].values[0];
  for (const lanes::NamedArgument& given : node.arguments) {
    Operand operand;
    const auto& content = given.argument.content;
    if (const auto* value = std::get_if<lanes::ValueArgument>(&content)) {
      const bool tensor = graph.values[value->value].kind == lanes::ValueKind::tensor;
      if (tensor != (operation == Operation::read)) return refuse("argument of the wrong kind");
      operand.value = value->value;
    } else if (const auto* integer = std::get_if<int64_t>(&content)) {
      operand.constant = *integer;
    } else if (const auto* real = std::get_if<double>(&content)) {
      operand.constant = *real;
    } else {
      return refuse("an argument is neither a value nor a number");
    }
    if (operation == Operation::read) {
      if (operand.value == lanes::kNoValue) return refuse("reads a number out of a tensor only");
      if (!graph.values[operand.value].sizes.empty()) {
        for (const int64_t size : graph.values[operand.value].sizes) {
          if (size != 1) return refuse("reads a number out of a tensor of one element only");
        }
      }
    }
    call.operands_.push_back(std::move(operand));
  }
  if (call.result_ != lanes::kNoValue &&
      graph.values[call.result_].kind == lanes::ValueKind::tensor) {
    return refuse("its result is a number, the graph declares a tensor");
  }
  return call;
}

void ScalarCall::run(ValueTable& values) const {
  if (result_ == lanes::kNoValue) return;
  const c10::IValue& a = operand(values, 0);
  if (operation_ == Operation::read) {
    values[result_] = read_number(a.toTensor());
    return;
  }
  if (operation_ == Operation::neg) {
    values[result_] = a.isInt() ? exact(0, a.toInt(), kSub) : c10::IValue(-as_double(a));
    return;
  }
  if (operation_ == Operation::sqrt) {
    values[result_] = std::sqrt(as_double(a));
    return;
  }
  const c10::IValue& b = operand(values, 1);
  const bool integers = both_integers(a, b);
  switch (operation_) {
    case Operation::add:
      values[result_] = integers ? exact(a.toInt(), b.toInt(), kAdd) : as_double(a) + as_double(b);
      return;
    case Operation::sub:
      values[result_] = integers ? exact(a.toInt(), b.toInt(), kSub) : as_double(a) - as_double(b);
      return;
    case Operation::mul:
      values[result_] = integers ? exact(a.toInt(), b.toInt(), kMul) : as_double(a) * as_double(b);
      return;
    case Operation::div: values[result_] = as_double(a) / as_double(b); return;
    case Operation::pow: values[result_] = std::pow(as_double(a), as_double(b)); return;
    case Operation::min: values[result_] = smaller(a, b); return;
    case Operation::max: values[result_] = larger(a, b); return;
    default: return;
  }
}

}  // namespace laneway::adaptor
