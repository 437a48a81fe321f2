#include "adaptor/checks/operand_formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "adaptor/operators/element_count.h"

namespace laneway::adaptor {
namespace {

using Sizes = std::vector<int64_t>;

Status must_have(const Operands& operands, std::string_view name, const Sizes& expected) {
  const Sizes* given = operands.sizes(name);
  if (given == nullptr) return Operands::wrong(name, "must be a tensor " + sizes_text(expected));
  if (*given == expected) return {};
  return Operands::wrong_sizes(name, *given, sizes_text(expected));
}

// A list of one constant stands for as many as there are dimensions.
std::optional<Sizes> per_dimension(const Operands& operands, std::string_view name, size_t count) {
  auto given = operands.arguments().integers(name);
  if (given && given->size() == 1) given->resize(count, given->front());
  if (!given || given->size() != count) return std::nullopt;
  return given;
}

// Where numbers may be as large as they like: nothing on overflow.
std::optional<int64_t> sum_of_products(std::initializer_list<std::pair<int64_t, int64_t>> terms) {
  int64_t sum = 0;
  for (const auto& [a, b] : terms) {
    int64_t term = 0;
    if (__builtin_mul_overflow(a, b, &term) || __builtin_add_overflow(sum, term, &sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

}  // namespace

Status check_attention_heads(Operands& operands) {
  const int64_t heads = operands.size("H");
  const int64_t groups = operands.size("G");
  if (groups > 0 && heads % groups == 0) return {};
  return Operands::wrong("key", "has " + std::to_string(groups) + " heads, which do not divide " +
                                    std::to_string(heads) + " of 'query'");
}

Status check_batch_norm_backward(Operands& operands) {
  const NodeArguments& arguments = operands.arguments();
  const bool native = arguments.find("train") != nullptr;
  const auto train = arguments.truth(native ? "train" : "update");
  if (!train) return Operands::wrong(native ? "train" : "update", "must be a constant");
  const Sizes channels = {operands.size("C")};
  const char* const spread = native ? "save_invstd" : "save_var";
  for (const char* const name :
       {*train ? "save_mean" : "running_mean", *train ? spread : "running_var"}) {
    if (Status right = must_have(operands, name, channels); !right) return right;
  }
  if (element_count(*operands.sizes("input")) > 0) return {};
  return Operands::wrong_sizes("input", *operands.sizes("input"), "elements");
}

Status check_layer_norm_backward(Operands& operands) {
  const Sizes& input = *operands.sizes("input");
  const auto shape = operands.arguments().integers("normalized_shape");
  const bool ends = shape && !shape->empty() && shape->size() <= input.size() &&
                    std::equal(shape->rbegin(), shape->rend(), input.rbegin());
  if (!ends) {
    return Operands::wrong("normalized_shape",
                           "must be the last sizes of 'input', " + sizes_text(input));
  }
  const Sizes rows(input.begin(), input.end() - static_cast<int64_t>(shape->size()));
  for (const std::string_view name : {"mean", "rstd"}) {
    const Sizes* given = operands.sizes(name);
    if (given == nullptr || element_count(*given) != element_count(rows)) {
      return Operands::wrong_sizes(name, given == nullptr ? Sizes{} : *given,
                                   std::to_string(element_count(rows)) + " elements");
    }
  }
  for (const std::string_view name : {"weight", "bias"}) {
    if (!operands.is_given(name)) continue;
    if (Status right = must_have(operands, name, *shape); !right) return right;
  }
  return {};
}

Status check_group_norm(Operands& operands) {
  const int64_t groups = operands.size("G");
  const auto count =
      sum_of_products({{operands.size("N") * operands.size("C"), operands.size("HxW")}});
  const Sizes& input = *operands.sizes(operands.sizes("input") != nullptr ? "input" : "X");
  if (groups <= 0 || operands.size("C") % groups != 0) {
    return Operands::wrong("group", "must divide the channels");
  }
  if (count && *count == element_count(input)) return {};
  return Operands::wrong_sizes("input", input, "N * C * HxW elements");
}

Status check_group_norm_backward(Operands& operands) {
  if (Status right = check_group_norm(operands); !right) return right;
  const Sizes groups = {operands.size("N"), operands.size("G")};
  for (const std::string_view name : {"mean", "rstd"}) {
    if (Status right = must_have(operands, name, groups); !right) return right;
  }
  return {};
}

Status check_weight_norm(Operands& operands) {
  const bool backward = operands.sizes("saved_v") != nullptr;
  const Sizes& v = *operands.sizes(backward ? "saved_v" : "v");
  const auto dim = operands.dimension("dim", v.size());
  if (!dim || v.empty() || (*dim != 0 && *dim + 1 != v.size())) {
    return Operands::wrong("dim", "must be the first or the last dimension");
  }
  Sizes norms(v.size(), 1);
  norms[*dim] = v[*dim];
  if (!backward) return must_have(operands, "g", norms);
  if (Status right = must_have(operands, "saved_g", norms); !right) return right;
  return must_have(operands, "saved_norms", norms);
}

Status check_weight_norm_backward(Operands& operands) { return check_weight_norm(operands); }

Status check_convolution_backward(Operands& operands) {
  const Sizes& input = *operands.sizes("input");
  const Sizes& weight = *operands.sizes("weight");
  const NodeArguments& arguments = operands.arguments();
  const auto groups = arguments.integer("groups");
  const auto transposed = arguments.truth("transposed");
  if (input.size() < 3 || weight.size() != input.size() || !groups || *groups <= 0 || !transposed) {
    return Operands::wrong("weight", "must have as many dimensions as 'input', at least 3");
  }
  const size_t count = input.size() - 2;
  const auto stride = per_dimension(operands, "stride", count);
  const auto padding = per_dimension(operands, "padding", count);
  const auto dilation = per_dimension(operands, "dilation", count);
  const auto more = per_dimension(operands, "output_padding", count);
  if (!stride || !padding || !dilation || !more) {
    return Operands::wrong("stride",
                           "and the others must have " + std::to_string(count) + " constants");
  }
  Sizes expected = {input[0], *transposed ? weight[1] * *groups : weight[0]};
  if (input[1] != (*transposed ? weight[0] : weight[1] * *groups)) {
    return Operands::wrong_sizes("weight", weight, "the channels of 'input'");
  }
  for (size_t d = 0; d < count; ++d) {
    const int64_t in = input[d + 2];
    const int64_t step = (*stride)[d];
    const int64_t pad = (*padding)[d];
    if (step <= 0 || pad < 0 || (*dilation)[d] <= 0) {
      return Operands::wrong("stride", "and 'dilation' must be positive, 'padding' not negative");
    }
    const auto reach = sum_of_products({{(*dilation)[d], weight[d + 2] - 1}, {1, 1}});
    const auto size =
        !reach        ? std::nullopt
        : *transposed ? sum_of_products({{in - 1, step}, {-2, pad}, {1, *reach}, {1, (*more)[d]}})
                      : sum_of_products({{1, in}, {2, pad}, {-1, *reach}});
    if (!size || *size < 0) return Operands::wrong("padding", "leaves nothing to convolve");
    expected.push_back(*transposed ? *size : *size / step + 1);
  }
  return must_have(operands, "grad_output", expected);
}

Status check_resampling_scales(Operands& operands) {
  const NodeArguments& arguments = operands.arguments();
  const bool backward = arguments.find("input_size") != nullptr;
  Sizes input;
  if (backward) {
    const auto sizes = arguments.integers("input_size");
    if (!sizes || sizes->size() != 4) return Operands::wrong("input_size", "must be 4 constants");
    input = *sizes;
  } else {
    input = *operands.sizes("self");
  }
  const auto output = arguments.integers("output_size");
  const std::string_view names[] = {"scales_h", "scales_w"};
  for (size_t d = 0; d < 2; ++d) {
    if (!operands.is_given(names[d])) continue;
    const auto scale = arguments.real(names[d]);
    const auto in = static_cast<double>(input[d + 2]);
    const auto out = static_cast<double>((*output)[d]);
    // What a user's scale gives is rounded down; a little for how the product itself was.
    if (scale && out <= in * *scale + 0.01) continue;
    return Operands::wrong(names[d],
                           "must be a constant that takes " + std::to_string(input[d + 2]) +
                               " elements to no fewer than " + std::to_string((*output)[d]));
  }
  return {};
}

Status check_unfold_backward(Operands& operands) {
  const NodeArguments& arguments = operands.arguments();
  auto expected = arguments.integers("input_sizes");
  const auto size = arguments.integer("size");
  const auto step = arguments.integer("step");
  if (!expected || !size || !step) return Operands::wrong("size", "and 'step' must be constants");
  if (expected->empty()) {
    return *size <= 1 && *size >= 0 && *step > 0
               ? must_have(operands, "grad_in", {*size})
               : Status(Operands::wrong("size", "is over the size of what was unfolded, 1"));
  }
  const auto dim = operands.dimension("dim", expected->size());
  if (!dim || *size < 0 || *step <= 0 || *size > (*expected)[*dim]) {
    return Operands::wrong("size", "is over the size of what was unfolded");
  }
  (*expected)[*dim] = ((*expected)[*dim] - *size) / *step + 1;
  expected->push_back(*size);
  return must_have(operands, "grad_in", *expected);
}

Status check_lu_pivots(Operands& operands) {
  Sizes expected = operands.group("B");
  expected.push_back(std::min(operands.size("M"), operands.size("N")));
  return must_have(operands, "LU_pivots", expected);
}

Status check_cdist_backward(Operands& operands) {
  const Sizes& a = operands.group("A");
  const Sizes& b = operands.group("B");
  Sizes expected(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < expected.size(); ++i) {
    const int64_t of_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t of_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      return Operands::wrong_sizes("x2", *operands.sizes("x2"),
                                   "those of 'x1' before its last two");
    }
    expected[expected.size() - 1 - i] = of_a == 1 ? of_b : of_a;
  }
  expected.push_back(operands.size("P"));
  expected.push_back(operands.size("R"));
  if (Status right = must_have(operands, "grad", expected); !right) return right;
  return must_have(operands, "cdist", expected);
}

Status check_pair_count(Operands& operands) {
  const int64_t rows = operands.size("N");
  if (rows == 0) return Operands::wrong("self", "must have rows");
  const Sizes expected = {rows * (rows - 1) / 2};
  if (Status right = must_have(operands, "grad", expected); !right) return right;
  return must_have(operands, "pdist", expected);
}

Status check_pooled(Operands& operands) {
  const Sizes& self = *operands.sizes("self");
  if (element_count(self) > 0 || element_count(*operands.sizes("grad_output")) == 0) return {};
  return Operands::wrong_sizes("self", self, "elements, as 'grad_output' has");
}

Status check_margin_gradient(Operands& operands) {
  const Sizes* gradient = operands.sizes("grad_output");
  const Sizes* target = operands.sizes("target");
  const auto reduction = operands.arguments().integer("reduction");
  if (gradient == nullptr || target == nullptr || !reduction) {
    return Operands::wrong("reduction", "must be a constant");
  }
  if (*reduction == 0) {
    // One loss a row: of labels that are a row themselves, or one a row.
    Sizes rows = *target;
    if (operands.is_given("is_target") && !rows.empty()) rows.pop_back();
    return must_have(operands, "grad_output", rows);
  }
  if (element_count(*gradient) == 1) return {};
  return Operands::wrong_sizes("grad_output", *gradient, "one element");
}

Status check_median_dim(Operands& operands) {
  const Sizes& sizes = *operands.sizes("self");
  const auto dim = operands.dimension("dim", sizes.size());
  const lanes::ValueIndex self = operands.arguments().value("self");
  if (!dim) return Operands::wrong("dim", "must be a dimension of 'self'");
  if (!sizes.empty()) {
    operands.need({self, OperandNeed::Kind::not_expanded_in, "self", static_cast<int64_t>(*dim)});
  }
  return {};
}

Status check_transform_dims(Operands& operands) {
  const auto rank = static_cast<int64_t>(operands.sizes("self")->size());
  auto dims = operands.arguments().integers("dim");
  if (!dims) return Operands::wrong("dim", "must be constants");
  std::sort(dims->begin(), dims->end());
  const bool right = (dims->empty() || (dims->front() >= 0 && dims->back() < rank)) &&
                     std::adjacent_find(dims->begin(), dims->end()) == dims->end();
  if (right) return {};
  return Operands::wrong("dim", "is " + sizes_text(*dims) +
                                    ", it must be dimensions of 'self', 0 to " +
                                    std::to_string(rank - 1) + ", each once");
}

Status check_half_transform(Operands& operands) {
  if (Status right = check_transform_dims(operands); !right) return right;
  const auto dims = operands.arguments().integers("dim");
  const auto size = operands.arguments().integer("last_dim_size");
  if (dims->empty()) return {};
  const int64_t half = (*operands.sizes("self"))[static_cast<size_t>(dims->back())];
  if (size && *size > 0 && half == *size / 2 + 1) return {};
  return Operands::wrong("last_dim_size", "must be a constant whose half and one more is " +
                                              std::to_string(half) + ", the size of 'self' there");
}

Status check_whole_steps(Operands& operands) {
  const lanes::Argument* dtype = operands.arguments().find("dtype");
  const auto* given =
      dtype == nullptr ? nullptr : std::get_if<lanes::DTypeArgument>(&dtype->content);
  const bool whole = given != nullptr && given->dtype <= lanes::DType::int64;
  const lanes::Argument* step = operands.arguments().find("step");
  if (!whole || step == nullptr) return {};
  if (std::holds_alternative<int64_t>(step->content)) return {};
  if (const auto* value = std::get_if<lanes::ValueArgument>(&step->content)) {
    if (operands.value(value->value).kind == lanes::ValueKind::integer) return {};
  }
  const auto real = operands.arguments().real("step");
  if (real && std::abs(*real) >= 1.0) return {};
  return Operands::wrong("step", "must be a whole number, as the result's elements are");
}

Status check_dense_copy(Operands& operands) {
  const auto size = operands.arguments().integers("size");
  const auto stride = operands.arguments().integers("stride");
  if (!size || !stride || size->size() != stride->size()) {
    return Operands::wrong("stride", "must be a constant a dimension");
  }
  const int64_t elements = element_count(*operands.sizes("self"));
  std::optional<int64_t> last = 0;
  bool negative = false;
  for (size_t d = 0; d < size->size(); ++d) {
    negative = negative || (*size)[d] < 1 || (*stride)[d] < 0;
    if (last) last = sum_of_products({{1, *last}, {(*size)[d] - 1, (*stride)[d]}});
  }
  if (!negative && last && *last < elements) return {};
  return Operands::wrong("size", "reaches beyond 'self'");
}

Status check_head_count(Operands& operands) {
  const auto heads = operands.arguments().integer("num_head");
  if (heads && *heads > 0) return {};
  return Operands::wrong("num_head", "must be a constant above 0: sizes are divided by it");
}

Status check_square_scores(Operands& operands) {
  const Sizes& self = *operands.sizes("self");
  if (operands.arguments().integer("mask_type") == 2) return {};
  if (self.size() == 4 && self[2] == self[3]) return {};
  return Operands::wrong_sizes("self", self, "4 dimensions, the last two alike");
}

Status check_training(Operands& operands) {
  if (operands.arguments().truth("training") == true) return {};
  return Operands::wrong("training", "must be True where there are no running statistics");
}

Status check_whole_division(Operands& operands) {
  const NodeArguments& arguments = operands.arguments();
  const lanes::Argument* mode = arguments.find("rounding_mode");
  if (mode == nullptr || mode->content != decltype(mode->content)(std::string("trunc"))) return {};
  const lanes::ValueIndex self = arguments.value("self");
  const lanes::ValueIndex other = arguments.value("other");
  if (self == lanes::kNoValue) return {};
  const auto number = arguments.real("other");
  if (other == lanes::kNoValue && number && *number != -1.0) return {};
  operands.need({self, OperandNeed::Kind::divides, "self", -1, other});
  return {};
}

Status check_common_multiple(Operands& operands) {
  for (const char* const name : {"self", "other"}) {
    const lanes::ValueIndex value = operands.arguments().value(name);
    if (value != lanes::kNoValue) {
      operands.need({value, OperandNeed::Kind::not_smallest, name});
    }
  }
  return {};
}

Status check_some_tensors(Operands& operands) {
  const auto tensors = operands.list("tensors");
  if (tensors && !tensors->empty()) return {};
  return Operands::wrong("tensors", "must be at least one tensor");
}

Status check_copied_lists(Operands& operands) {
  const auto self = operands.list("self");
  const auto source = operands.list("src");
  if (self && source && !self->empty() && self->size() == source->size()) return {};
  return Operands::wrong("src", "must be as many tensors as 'self'");
}

}  // namespace laneway::adaptor
