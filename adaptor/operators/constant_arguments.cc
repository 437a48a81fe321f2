#include "adaptor/operators/constant_arguments.h"

#include <ATen/ops/scalar_tensor.h>

#include <optional>
#include <string>
#include <utility>

#include "adaptor/operators/torch_tensors.h"

namespace laneway::adaptor {
namespace {

using c10::TypeKind;

bool is_optional(const c10::Type& type) { return type.kind() == TypeKind::OptionalType; }

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
                                                : number.isComplex()     ? at::kComplexDouble
                                                                         : at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// A number argument as a scalar, or nothing.
std::optional<at::Scalar> as_scalar(const lanes::Argument& argument) {
  if (const auto* integer = std::get_if<int64_t>(&argument.content)) return at::Scalar(*integer);
  if (const auto* real = std::get_if<double>(&argument.content)) return at::Scalar(*real);
  if (const auto* boolean = std::get_if<bool>(&argument.content)) return at::Scalar(*boolean);
  if (const auto* complex = std::get_if<std::complex<double>>(&argument.content)) {
    return at::Scalar(c10::complex<double>(*complex));
  }
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

}  // namespace

const c10::Type& without_optional(const c10::Type& type) {
  const auto* optional = type.castRaw<c10::OptionalType>();
  return optional == nullptr ? type : *optional->getElementType();
}

Result<c10::IValue> constant_argument(const c10::Type& type, const lanes::Argument& argument,
                                      const at::Generator& generator) {
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
      if (const auto number = as_scalar(argument); number && !number->isComplex()) {
        return c10::IValue(number->toDouble());
      }
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
    case TypeKind::GeneratorType: return c10::IValue(generator);
    case TypeKind::ListType: {
      // torch accepts a number for a list of fixed length: "int[1]"
      lanes::ListArgument single;
      single.elements.push_back(argument);
      return constant_list(*inner.castRaw<c10::ListType>()->getElementType(), single, generator);
    }
    default: return wrong;
  }
}

Result<c10::IValue> constant_list(const c10::Type& element, const lanes::ListArgument& list,
                                  const at::Generator& generator) {
  c10::List<int64_t> integers;
  c10::List<double> reals;
  c10::List<bool> booleans;
  c10::List<at::Tensor> tensors;
  c10::List<std::optional<at::Tensor>> optional_tensors;
  c10::List<at::Scalar> numbers;
  for (const lanes::Argument& given : list.elements) {
    Result<c10::IValue> made = constant_argument(element, given, generator);
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

}  // namespace laneway::adaptor
