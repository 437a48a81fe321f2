#include "adaptor/call_resolver.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <set>
#include <utility>

#include "adaptor/operator_list.h"
#include "adaptor/random_operators.h"
#include "adaptor/torch_tensors.h"

namespace laneway::adaptor {
namespace {

using c10::TypeKind;

const c10::Type& without_optional(const c10::Type& type) {
  const auto* optional = type.castRaw<c10::OptionalType>();
  return optional == nullptr ? type : *optional->getElementType();
}

bool is_optional(const c10::Type& type) { return type.kind() == TypeKind::OptionalType; }

bool is_tensor(const c10::Type& type) {
  return without_optional(type).kind() == TypeKind::TensorType;
}

c10::MemoryFormat memory_format(lanes::MemoryFormat format) {
  switch (format) {
    case lanes::MemoryFormat::contiguous: return c10::MemoryFormat::Contiguous;
    case lanes::MemoryFormat::preserve: return c10::MemoryFormat::Preserve;
    case lanes::MemoryFormat::channels_last: return c10::MemoryFormat::ChannelsLast;
    case lanes::MemoryFormat::channels_last_3d: return c10::MemoryFormat::ChannelsLast3d;
  }
  return c10::MemoryFormat::Contiguous;
}

at::Tensor wrapped_constant(const at::Scalar& number) {
  at::Tensor tensor = at::scalar_tensor(number, number.isIntegral(false) ? at::kLong
                                                : number.isBoolean()     ? at::kBool
                                                                         : at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// A number argument as a scalar, or nothing.
std::optional<at::Scalar> as_scalar(const lanes::Argument& argument) {
  if (const auto* integer = std::get_if<int64_t>(&argument.content)) return at::Scalar(*integer);
  if (const auto* real = std::get_if<double>(&argument.content)) return at::Scalar(*real);
  if (const auto* boolean = std::get_if<bool>(&argument.content)) return at::Scalar(*boolean);
  return std::nullopt;
}

// What an int-typed schema argument accepts: integers, and the enums that torch passes as int.
std::optional<int64_t> as_integer(const lanes::Argument& argument) {
  if (const auto* integer = std::get_if<int64_t>(&argument.content)) return *integer;
  if (const auto* boolean = std::get_if<bool>(&argument.content)) return *boolean ? 1 : 0;
  if (const auto* dtype = std::get_if<lanes::DTypeArgument>(&argument.content)) {
    return static_cast<int64_t>(scalar_type(dtype->dtype));
  }
  if (const auto* format = std::get_if<lanes::MemoryFormatArgument>(&argument.content)) {
    return static_cast<int64_t>(memory_format(format->format));
  }
  if (std::holds_alternative<lanes::LayoutArgument>(argument.content)) {
    return static_cast<int64_t>(c10::Layout::Strided);
  }
  return std::nullopt;
}

std::pair<std::string, std::string> split_overload(const std::string& name) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return {name, ""};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

}  // namespace

CallResolver::CallResolver(const lanes::Graph& graph, size_t node_index,
                           const at::Generator& generator, const ValueTable& values,
                           const StaticValues& is_static)
    : graph_(graph),
      node_index_(node_index),
      node_(graph.nodes[node_index]),
      generator_(generator),
      values_(values),
      is_static_(is_static) {}

Result<OperatorCall> CallResolver::resolve() {
  if (Status found = find_operator(); !found) return found.error();
  if (Status aligned = align_arguments(); !aligned) return aligned.error();
  call_->template_.resize(aligned_.size());
  for (size_t position = 0; position < aligned_.size(); ++position) {
    if (aligned_[position] == nullptr) {
      call_->template_[position] = *schema_->arguments()[position].default_value();
    } else if (Status placed = place(position, *aligned_[position]); !placed) {
      return placed.error();
    }
    // An operator that takes a generator always draws from the job's own.
    const c10::Type& type = without_optional(*schema_->arguments()[position].type());
    if (type.kind() == TypeKind::GeneratorType) {
      call_->template_[position] = generator_;
      call_->is_random_ = true;
    }
  }
  if (Status draws = check_draws(); !draws) return draws.error();
  if (Status writes = check_writes(); !writes) return writes.error();
  if (Status results = take_results(); !results) return results.error();
  return std::move(*call_);
}

Status CallResolver::find_operator() {
  if (!operator_allowed(node_.op)) {
    return refuse(
        "the operator is not on the list of operators that a graph may call; write the step "
        "without it, or ask for it to be reviewed and listed");
  }
  register_random_operators();
  const auto [name, overload] = split_overload(node_.op);
  const auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle) return refuse("this build of torch has no such operator");
  call_.emplace(OperatorCall(*handle));
  schema_ = &handle->schema();
  return {};
}

Status CallResolver::align_arguments() {
  const std::vector<c10::Argument>& wanted = schema_->arguments();
  aligned_.assign(wanted.size(), nullptr);
  size_t next = 0;
  for (const lanes::NamedArgument& given : node_.arguments) {
    size_t position = next;
    if (given.name.empty()) {
      if (next >= wanted.size()) {
        return refuse("has " + std::to_string(node_.arguments.size()) +
                      " arguments, the schema takes " + std::to_string(wanted.size()));
      }
      ++next;
    } else {
      const auto named = schema_->argumentIndexWithName(given.name);
      if (!named) return refuse("has no argument named '" + given.name + "'");
      position = static_cast<size_t>(*named);
    }
    if (aligned_[position] != nullptr) return refuse_argument(position, "is given twice");
    aligned_[position] = &given.argument;
  }
  for (size_t position = 0; position < wanted.size(); ++position) {
    if (aligned_[position] == nullptr && !wanted[position].default_value()) {
      return refuse_argument(position, "is missing and has no default");
    }
  }
  return {};
}

Status CallResolver::place(size_t position, const lanes::Argument& argument) {
  const c10::Type& type = *schema_->arguments()[position].type();
  if (const auto* value = std::get_if<lanes::ValueArgument>(&argument.content)) {
    return place_value(position, type, value->value);
  }
  const c10::Type& inner = without_optional(type);
  const auto* list = std::get_if<lanes::ListArgument>(&argument.content);
  if (list != nullptr && inner.kind() == TypeKind::ListType) {
    return place_list(position, inner, *list);
  }
  Result<c10::IValue> made = constant(type, argument);
  if (!made) return refuse_argument(position, made.error().message);
  call_->template_[position] = std::move(made).value();
  return {};
}

Status CallResolver::place_value(size_t position, const c10::Type& type, lanes::ValueIndex value) {
  const c10::Type& inner = without_optional(type);
  const bool gives_tensor = graph_.values[value].kind == lanes::ValueKind::tensor;
  if (gives_tensor && !is_tensor(type)) {
    return refuse_argument(position, "is a tensor where the schema has " + type.str());
  }
  const bool takes_number = is_tensor(type) || inner.kind() == TypeKind::NumberType ||
                            inner.kind() == TypeKind::FloatType ||
                            inner.kind() == TypeKind::IntType || inner.kind() == TypeKind::BoolType;
  if (!gives_tensor && !takes_number) {
    return refuse_argument(position, "is a number where the schema has " + type.str());
  }
  if (known_now(value)) {
    call_->template_[position] = values_[value];
    return {};
  }
  call_->fills_.push_back({.position = static_cast<uint32_t>(position),
                           .value = value,
                           .wrap_number = !gives_tensor && is_tensor(type)});
  return {};
}

Status CallResolver::place_list(size_t position, const c10::Type& type,
                                const lanes::ListArgument& list) {
  const c10::Type& element = *type.castRaw<c10::ListType>()->getElementType();
  const bool has_values = std::any_of(list.elements.begin(), list.elements.end(), [](auto& e) {
    return std::holds_alternative<lanes::ValueArgument>(e.content);
  });
  if (!has_values) {
    Result<c10::IValue> made = constant_list(element, list);
    if (!made) return refuse_argument(position, made.error().message);
    call_->template_[position] = std::move(made).value();
    return {};
  }
  ListFill fill;
  fill.position = static_cast<uint32_t>(position);
  switch (element.kind()) {
    case TypeKind::TensorType: fill.kind = ListFill::Kind::tensors; break;
    case TypeKind::OptionalType: fill.kind = ListFill::Kind::optional_tensors; break;
    case TypeKind::IntType: fill.kind = ListFill::Kind::integers; break;
    case TypeKind::NumberType: fill.kind = ListFill::Kind::numbers; break;
    default: return refuse_argument(position, "has values in a list of " + element.str());
  }
  bool all_known = true;
  for (const lanes::Argument& given : list.elements) {
    const auto* value = std::get_if<lanes::ValueArgument>(&given.content);
    if (value != nullptr) {
      const bool tensor = graph_.values[value->value].kind == lanes::ValueKind::tensor;
      if (tensor != is_tensor(element)) {
        return refuse_argument(position, "has an element that is no " + element.str());
      }
      all_known = all_known && known_now(value->value);
      fill.values.push_back(value->value);
      fill.constants.emplace_back();
      continue;
    }
    Result<c10::IValue> made = constant(element, given);
    if (!made) return refuse_argument(position, made.error().message);
    fill.values.push_back(lanes::kNoValue);
    fill.constants.push_back(std::move(made).value());
  }
  if (all_known) {
    call_->template_[position] = OperatorCall::build_list(fill, values_);
  } else {
    call_->list_fills_.push_back(std::move(fill));
  }
  return {};
}

Result<c10::IValue> CallResolver::constant(const c10::Type& type,
                                           const lanes::Argument& argument) const {
  const Error wrong{ErrorCode::invalid_graph, "is not what the schema has there: " + type.str()};
  if (std::holds_alternative<lanes::NoneArgument>(argument.content)) {
    if (is_optional(type)) return c10::IValue();
    return wrong;
  }
  const c10::Type& inner = without_optional(type);
  switch (inner.kind()) {
    case TypeKind::TensorType:
      if (const auto number = as_scalar(argument)) return c10::IValue(wrapped_constant(*number));
      return wrong;
    case TypeKind::NumberType:
      if (const auto number = as_scalar(argument)) return c10::IValue(*number);
      return wrong;
    case TypeKind::FloatType:
      if (const auto number = as_scalar(argument)) return c10::IValue(number->toDouble());
      return wrong;
    case TypeKind::IntType:
      if (const auto integer = as_integer(argument)) return c10::IValue(*integer);
      return wrong;
    case TypeKind::BoolType:
      if (const auto* boolean = std::get_if<bool>(&argument.content)) return c10::IValue(*boolean);
      if (const auto integer = as_integer(argument)) return c10::IValue(*integer != 0);
      return wrong;
    case TypeKind::StringType:
      if (const auto* text = std::get_if<std::string>(&argument.content)) return c10::IValue(*text);
      return wrong;
    case TypeKind::DeviceObjType:
      if (std::holds_alternative<lanes::DeviceArgument>(argument.content)) {
        return c10::IValue(c10::Device(c10::DeviceType::CPU));
      }
      return wrong;
    case TypeKind::GeneratorType: return c10::IValue(generator_);
    case TypeKind::ListType: {
      // torch accepts a number for a list of fixed length: "int[1]"
      lanes::ListArgument single;
      single.elements.push_back(argument);
      return constant_list(*inner.castRaw<c10::ListType>()->getElementType(), single);
    }
    default: return wrong;
  }
}

Result<c10::IValue> CallResolver::constant_list(const c10::Type& element,
                                                const lanes::ListArgument& list) const {
  c10::List<int64_t> integers;
  c10::List<double> reals;
  c10::List<bool> booleans;
  c10::List<at::Tensor> tensors;
  c10::List<std::optional<at::Tensor>> optional_tensors;
  c10::List<at::Scalar> numbers;
  for (const lanes::Argument& given : list.elements) {
    Result<c10::IValue> made = constant(element, given);
    if (!made) return made;
    const c10::IValue& value = made.value();
    switch (element.kind()) {
      case TypeKind::IntType: integers.push_back(value.toInt()); break;
      case TypeKind::FloatType: reals.push_back(value.toDouble()); break;
      case TypeKind::BoolType: booleans.push_back(value.toBool()); break;
      case TypeKind::TensorType: tensors.push_back(value.toTensor()); break;
      case TypeKind::OptionalType:
        optional_tensors.push_back(value.toOptional<at::Tensor>());
        break;
      case TypeKind::NumberType: numbers.push_back(value.toScalar()); break;
      default: break;
    }
  }
  switch (element.kind()) {
    case TypeKind::IntType: return c10::IValue(std::move(integers));
    case TypeKind::FloatType: return c10::IValue(std::move(reals));
    case TypeKind::BoolType: return c10::IValue(std::move(booleans));
    case TypeKind::TensorType: return c10::IValue(std::move(tensors));
    case TypeKind::OptionalType: return c10::IValue(std::move(optional_tensors));
    case TypeKind::NumberType: return c10::IValue(std::move(numbers));
    default:
      return Error{ErrorCode::invalid_graph,
                   "is a list of " + element.str() + ", which graphs do not carry"};
  }
}

// An operator that draws without taking a generator would draw from the process's own, which
// belongs to the user's threads and cannot be rewound. Fused attention draws for its dropout only.
Status CallResolver::check_draws() const {
  if (call_->is_random_ || !call_->op_.hasTag(at::Tag::nondeterministic_seeded)) return {};
  const auto dropout = schema_->argumentIndexWithName("dropout_p");
  if (dropout) {
    const c10::IValue& probability = call_->template_[static_cast<size_t>(*dropout)];
    if (probability.isDouble() && probability.toDouble() == 0.0) return {};
  }
  return refuse(
      "draws random numbers but takes no generator; use dropout outside of the operator (for "
      "attention: the math implementation)");
}

Status CallResolver::check_writes() const {
  std::set<lanes::ValueIndex> by_schema;
  for (size_t position = 0; position < aligned_.size(); ++position) {
    const c10::AliasInfo* alias = schema_->arguments()[position].alias_info();
    if (alias == nullptr || !alias->isWrite() || aligned_[position] == nullptr) continue;
    const auto& content = aligned_[position]->content;
    if (const auto* value = std::get_if<lanes::ValueArgument>(&content)) {
      by_schema.insert(value->value);
    } else if (const auto* list = std::get_if<lanes::ListArgument>(&content)) {
      for (const lanes::Argument& element : list->elements) {
        if (const auto* listed = std::get_if<lanes::ValueArgument>(&element.content)) {
          by_schema.insert(listed->value);
        }
      }
    }
  }
  const std::set<lanes::ValueIndex> declared(node_.writes.begin(), node_.writes.end());
  if (declared != by_schema) {
    return refuse("declares " + std::to_string(declared.size()) +
                  " written values, the operator's schema writes " +
                  std::to_string(by_schema.size()) + " (or others)");
  }
  return {};
}

Status CallResolver::take_results() {
  const std::vector<c10::Argument>& returns = schema_->returns();
  if (node_.results.size() != returns.size()) {
    return refuse("declares " + std::to_string(node_.results.size()) +
                  " results, the schema returns " + std::to_string(returns.size()));
  }
  bool every_result_aliases = !returns.empty();
  for (size_t i = 0; i < returns.size(); ++i) {
    const bool is_list = returns[i].type()->kind() == TypeKind::ListType;
    const lanes::NodeResult& result = node_.results[i];
    if (is_list != result.is_list || (!is_list && result.values.size() != 1)) {
      return refuse("result " + std::to_string(i) + " does not have the schema's form, " +
                    returns[i].type()->str());
    }
    const c10::AliasInfo* alias = returns[i].alias_info();
    every_result_aliases = every_result_aliases && alias != nullptr && !alias->isWrite();
    call_->results_.push_back({result.is_list, result.values});
  }
  call_->is_view_ = every_result_aliases && !call_->is_random_ && node_.writes.empty();
  call_->one_plain_result_ = returns.size() == 1 && !node_.results[0].is_list;
  if (call_->one_plain_result_) call_->single_result_ = node_.results[0].values[0];
  return {};
}

Error CallResolver::refuse(const std::string& what) const {
  std::string text = "node " + std::to_string(node_index_) + " (" + node_.op + "): " + what;
  if (!node_.source.empty()) text += "; from " + node_.source;
  return Error{ErrorCode::invalid_graph, text};
}

Error CallResolver::refuse_argument(size_t position, const std::string& what) const {
  return refuse("argument '" + schema_->arguments()[position].name() + "' " + what);
}

}  // namespace laneway::adaptor
