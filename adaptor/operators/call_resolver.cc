#include "adaptor/operators/call_resolver.h"

#include <algorithm>
#include <set>
#include <utility>

#include "adaptor/operators/constant_arguments.h"
#include "adaptor/operators/operator_list.h"
#include "adaptor/operators/random_operators.h"
#include "adaptor/operators/torch_tensors.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {
namespace {

using c10::TypeKind;

bool is_tensor(const c10::Type& type) {
  return without_optional(type).kind() == TypeKind::TensorType;
}

// Tensors that their schemas do not call optional and that their operators take undefined: a mask
// that there is none of, and the state of a generator that only dropout reads.
bool may_be_undefined(std::string_view op, std::string_view argument) {
  return op == "aten::_scaled_dot_product_efficient_attention_backward" &&
         (argument == "attn_bias" || argument == "philox_seed" || argument == "philox_offset");
}

}  // namespace

CallResolver::CallResolver(const lanes::Graph& graph, size_t node_index,
                           const at::Generator& generator, const ValueTable& values,
                           const StaticValues& is_static, c10::Device device)
    : graph_(graph),
      node_index_(node_index),
      node_(graph.nodes[node_index]),
      generator_(generator),
      values_(values),
      is_static_(is_static),
      device_(device) {}

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
    // Elsewhere than on the CPU no operator is left to choose where its result lies.
    if (type.kind() == TypeKind::DeviceObjType && !device_.is_cpu()) {
      call_->template_[position] = device_;
    }
  }
  if (Status there = check_kernel(); !there) return there.error();
  if (Status form = check_form(); !form) return form.error();
  if (Status placed = place_in_slot(); !placed) return placed.error();
  if (Status draws = check_draws(); !draws) return draws.error();
  if (Status writes = check_writes(); !writes) return writes.error();
  if (Status results = take_results(); !results) return results.error();
  call_->shape_depends_on_data_ = shape_depends_on_data();
  return std::move(*call_);
}

Status CallResolver::find_operator() {
  if (!operator_allowed(node_.op)) {
    return refuse(
        "the operator is not on the list of operators that a graph may call; write the step "
        "without it, or ask for it to be reviewed and listed");
  }
  register_random_operators();
  const auto handle = c10::Dispatcher::singleton().findSchema(operator_name(node_.op));
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
  if (std::holds_alternative<lanes::NoneArgument>(argument.content) &&
      may_be_undefined(node_.op, schema_->arguments()[position].name())) {
    call_->template_[position] = at::Tensor();
    return {};
  }
  const c10::Type& inner = without_optional(type);
  const auto* list = std::get_if<lanes::ListArgument>(&argument.content);
  if (list != nullptr && inner.kind() == TypeKind::ListType) {
    return place_list(position, inner, *list);
  }
  Result<c10::IValue> made = constant_argument(type, argument, generator_);
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
    call_->statics_.push_back({.position = static_cast<uint32_t>(position), .value = value});
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
    Result<c10::IValue> made = constant_list(element, list, generator_);
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
    Result<c10::IValue> made = constant_argument(element, given, generator_);
    if (!made) return refuse_argument(position, made.error().message);
    fill.values.push_back(lanes::kNoValue);
    fill.constants.push_back(std::move(made).value());
  }
  if (all_known) {
    call_->template_[position] = OperatorCall::build_list(fill, values_);
    call_->static_lists_.push_back(std::move(fill));
  } else {
    call_->list_fills_.push_back(std::move(fill));
  }
  return {};
}

// Operators are listed by name; a few arguments turn one into something that is not: memory that is
// no lane's, results that are no plain tensors, numbers in the place of torch's enumerations.
Status CallResolver::check_form() const {
  for (size_t position = 0; position < aligned_.size(); ++position) {
    if (aligned_[position] == nullptr) continue;
    const c10::Argument& wanted = schema_->arguments()[position];
    const auto& content = aligned_[position]->content;
    const bool none = std::holds_alternative<lanes::NoneArgument>(content);
    const c10::TypeKind kind = without_optional(*wanted.real_type()).kind();
    const bool right =
        none ||
        (kind == TypeKind::ScalarTypeType ? std::holds_alternative<lanes::DTypeArgument>(content)
         : kind == TypeKind::LayoutType   ? std::holds_alternative<lanes::LayoutArgument>(content)
         : kind == TypeKind::MemoryFormatType
             ? std::holds_alternative<lanes::MemoryFormatArgument>(content)
             : true);
    if (!right) {
      return refuse_argument(position, "is a number in the place of a " + wanted.type()->str() +
                                           "; give the dtype, layout or memory format itself");
    }
    const std::string& name = wanted.name();
    if (name == "pin_memory" || name == "sparse" || name == "sparse_grad") {
      const auto* given = std::get_if<bool>(&content);
      if (none || (given != nullptr && !*given)) continue;
      return refuse_argument(position, name == "pin_memory"
                                           ? "must be False: memory is the lane's"
                                           : "must be False: gradients are plain tensors here");
    }
  }
  return {};
}

// Composite operators count: their kernels are those of the operators that they call.
Status CallResolver::check_kernel() const {
  if (device_.is_cpu()) return {};
  const c10::DispatchKey key = dispatch_key(device_);
  if (call_->op_.hasComputedKernelForDispatchKey(key)) return {};
  return refuse(
      "has no kernel on " + device_.str() +
      ": captures take other operators for such a device; make the step while connected to "
      "the service that runs it, or write it without this operator");
}

// An operator that draws without taking a generator would draw from the process's own, which
// belongs to the user's threads and cannot be rewound. Fused attention and fused recurrent layers
// draw for their dropout only.
Status CallResolver::check_draws() const {
  if (call_->is_random_ || !call_->op_.hasTag(at::Tag::nondeterministic_seeded)) return {};
  for (const char* name : {"dropout_p", "dropout"}) {
    const auto dropout = schema_->argumentIndexWithName(name);
    if (!dropout) continue;
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

// as_strided counts its offset from the start of the storage, which for a tensor of the image is
// the start of the image, and at capture was that of the tensor's own slot.
Status CallResolver::place_in_slot() {
  if (!node_.op.starts_with("aten::as_strided")) return {};
  const auto named = schema_->argumentIndexWithName("storage_offset");
  const auto* self = std::get_if<lanes::ValueArgument>(&aligned_[0]->content);
  if (!named || self == nullptr) return {};
  const lanes::Argument* given = aligned_[static_cast<size_t>(*named)];
  const bool defaulted =
      given == nullptr || std::holds_alternative<lanes::NoneArgument>(given->content);
  const lanes::Value& base = graph_.values[self->value];
  if (defaulted || graph_.storages[base.storage].kind != lanes::StorageKind::persistent) return {};
  if (!known_now(self->value) || !call_->template_[*named].isInt()) {
    return refuse(
        "takes a piece of the job's memory at a place that is not known before the "
        "iteration; use slices");
  }
  call_->place_in_slot(*named, self->value, base.storage_offset, values_);
  return {};
}

// What the schema says is a view of an argument must be declared on that argument's storage: else
// writes to it would be writes to memory that the graph does not say it writes.
Status CallResolver::check_alias(const c10::AliasInfo& alias,
                                 const lanes::NodeResult& result) const {
  std::set<uint32_t> storages;
  const auto collect = [&](lanes::ValueIndex value) {
    if (graph_.values[value].kind == lanes::ValueKind::tensor) {
      storages.insert(graph_.values[value].storage);
    }
  };
  for (size_t position = 0; position < aligned_.size(); ++position) {
    const c10::AliasInfo* of = schema_->arguments()[position].alias_info();
    if (of == nullptr || aligned_[position] == nullptr) continue;
    const bool shared =
        std::any_of(alias.beforeSets().begin(), alias.beforeSets().end(),
                    [&](const c10::Symbol& set) { return of->beforeSets().count(set) > 0; });
    if (shared) lanes::for_each_value(*aligned_[position], collect);
  }
  for (const lanes::ValueIndex value : result.values) {
    if (value == lanes::kNoValue || storages.empty()) continue;
    if (storages.count(graph_.values[value].storage) == 0) {
      return refuse("gives a view of an argument, but its result is declared on storage " +
                    std::to_string(graph_.values[value].storage) +
                    ", which is not the argument's; capture the step again");
    }
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
    if (alias != nullptr) {
      if (Status right = check_alias(*alias, result); !right) return right;
    }
    call_->results_.push_back({result.is_list, result.values});
  }
  call_->is_view_ = every_result_aliases && !call_->is_random_ && node_.writes.empty();
  call_->one_plain_result_ = returns.size() == 1 && !node_.results[0].is_list;
  if (call_->one_plain_result_) call_->single_result_ = node_.results[0].values[0];
  return {};
}

bool CallResolver::shape_depends_on_data() const {
  const bool indexes = node_.op == "aten::index.Tensor";
  if (call_->op_.hasTag(at::Tag::dynamic_output_shape) && !indexes) return true;
  const bool counts = node_.op.starts_with("aten::arange") || node_.op.starts_with("aten::range");
  bool depends = false;
  for (size_t position = 0; position < aligned_.size(); ++position) {
    if (aligned_[position] == nullptr) continue;
    const c10::Type& type = without_optional(*schema_->arguments()[position].type());
    const auto* list = type.castRaw<c10::ListType>();
    const TypeKind kind = list == nullptr ? type.kind() : list->getElementType()->kind();
    const bool sizes = counts || kind == TypeKind::IntType || kind == TypeKind::BoolType;
    lanes::for_each_value(*aligned_[position], [&](lanes::ValueIndex index) {
      const lanes::Value& value = graph_.values[index];
      // Of indices only masks: what they select is counted when they run.
      const bool mask = value.dtype == lanes::DType::boolean || value.dtype == lanes::DType::uint8;
      const bool number = value.kind != lanes::ValueKind::tensor;
      depends = depends || (number ? sizes : indexes && mask && list != nullptr);
    });
  }
  return depends;
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
