// Rules about lists of tensors (fused optimizers) and about bags of embeddings: operand_formulas.h.
#include <algorithm>
#include <string>

#include "adaptor/checks/operand_formulas.h"
#include "adaptor/operators/element_count.h"

namespace laneway::adaptor {
namespace {

using Values = std::vector<lanes::ValueIndex>;

enum class Like : uint8_t { parameters, one_element };

// Holds one list of a fused optimizer to the list of its parameters.
class ParameterLists {
 public:
  explicit ParameterLists(Operands& operands) : operands_(operands) {
    if (auto self = operands.list("self")) self_ = std::move(*self);
  }

  Status add(const std::string& name, Like like, bool may_be_empty = false) {
    const auto list = operands_.list(name);
    if (list && list->empty() && may_be_empty) return {};
    if (!list || list->size() != self_.size()) {
      return Operands::wrong(name, "has " + std::to_string(list ? list->size() : 0) +
                                       " tensors, 'self' has " + std::to_string(self_.size()));
    }
    for (size_t i = 0; i < list->size(); ++i) {
      const lanes::Value& tensor = operands_.value((*list)[i]);
      const lanes::Value& parameter = operands_.value(self_[i]);
      const std::string element = name + "[" + std::to_string(i) + "]";
      if (like == Like::one_element) {
        if (element_count(tensor.sizes) == 1) continue;
        return Operands::wrong_sizes(element, tensor.sizes, "one element");
      }
      if (tensor.sizes != parameter.sizes) {
        return Operands::wrong_sizes(element, tensor.sizes,
                                     sizes_text(parameter.sizes) + ", as its parameter");
      }
      operands_.need({(*list)[i], OperandNeed::Kind::not_expanded, element});
    }
    return {};
  }

  // An optional tensor of one number.
  Status add_number(std::string_view name) const {
    const std::vector<int64_t>* sizes = operands_.sizes(name);
    if (sizes == nullptr) return {};
    for (const int64_t size : *sizes) {
      if (size != 1) return Operands::wrong_sizes(name, *sizes, "one element");
    }
    return {};
  }

  Status add_common() {
    Status right = add("self", Like::parameters);
    if (right) right = add("grads", Like::parameters);
    for (const std::string_view name : {"grad_scale", "found_inf", "lr"}) {
      if (right) right = add_number(name);
    }
    return right;
  }

 private:
  Operands& operands_;
  Values self_;
};

}  // namespace

Status check_fused_sgd(Operands& operands) {
  ParameterLists lists(operands);
  const bool no_momentum = operands.arguments().real("momentum") == 0.0;
  Status right = lists.add_common();
  if (right) right = lists.add("momentum_buffer_list", Like::parameters, no_momentum);
  return right;
}

Status check_fused_adam(Operands& operands) {
  ParameterLists lists(operands);
  const bool no_maximum = operands.arguments().truth("amsgrad") == false;
  Status right = lists.add_common();
  if (right) right = lists.add("exp_avgs", Like::parameters);
  if (right) right = lists.add("exp_avg_sqs", Like::parameters);
  if (right) right = lists.add("max_exp_avg_sqs", Like::parameters, no_maximum);
  if (right) right = lists.add("state_steps", Like::one_element);
  return right;
}

Status check_fused_adagrad(Operands& operands) {
  ParameterLists lists(operands);
  Status right = lists.add_common();
  if (right) right = lists.add("state_sums", Like::parameters);
  if (right) right = lists.add("state_steps", Like::one_element);
  return right;
}

Status check_bag_offsets(Operands& operands) {
  const auto mode = operands.arguments().integer("mode");
  if (!mode || *mode < 0 || *mode > 2) {
    return Operands::wrong("mode", "must be 0 (sum), 1 (mean) or 2 (max)");
  }
  if (operands.size("O") > 0 || operands.size("I") == 0) return {};
  return Operands::wrong("offsets", "is empty, but 'indices' is not");
}

Status check_repeats(Operands& operands) {
  const std::optional<int64_t> total = operands.arguments().integer("output_size");
  if (!total && operands.is_given("output_size")) {
    return Operands::wrong("output_size", "must be a number of the graph");
  }
  operands.need({operands.arguments().value("repeats"), OperandNeed::Kind::counts, "repeats",
                 total.value_or(-1)});
  return {};
}

Status check_bag_backward(Operands& operands) {
  const auto mode = operands.arguments().integer("mode");
  if (!mode || *mode < 0 || *mode > 2) {
    return Operands::wrong("mode", "must be 0 (sum), 1 (mean) or 2 (max)");
  }
  const int64_t bags = operands.size("B");
  const int64_t indices = operands.size("I");
  const std::vector<int64_t>* bag = operands.sizes("offset2bag");
  const bool numbered = *bag == std::vector{indices};
  if (operands.is_given("offsets")) {
    // Where no bag numbers are given they are counted from the offsets.
    const int64_t offsets = operands.size("O");
    const bool right =
        numbered || (*bag == std::vector<int64_t>{0} && (offsets == bags || offsets == bags + 1));
    if (!right) {
      return Operands::wrong_sizes("offset2bag", *bag, sizes_text(std::vector{indices}));
    }
    // The offset behind the last bag is what keeps the last indices in it.
    if (!numbered && offsets == bags + 1 && indices > 0) {
      operands.need({operands.arguments().value("offsets"), OperandNeed::Kind::last_reaches,
                     "offsets", indices});
    }
  } else if (!numbered) {
    return Operands::wrong_sizes("offset2bag", *bag, sizes_text(std::vector{indices}));
  }
  const std::vector<int64_t>* most = operands.sizes("maximum_indices");
  if (*mode == 2 && most != nullptr && *most != std::vector{bags, operands.size("D")}) {
    return Operands::wrong_sizes("maximum_indices", *most,
                                 sizes_text(std::vector{bags, operands.size("D")}));
  }
  return {};
}

}  // namespace laneway::adaptor
