#include "adaptor/checks/index_rules.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "adaptor/operators/element_count.h"
#include "adaptor/operators/node_arguments.h"

namespace laneway::adaptor {
namespace {

// What sets the number of integers that are allowed.
enum class Limit : uint8_t {
  rows,           // of `subject`: its first size
  classes,        // of `subject`: its only or its second size
  along_dim,      // the size of `subject` in the dimension that the argument "dim" names
  elements,       // of `subject`
  ends,           // of `subject`: its elements and one more
  plane,          // of `subject`: the product of its last two sizes
  volume,         // of its last three
  number,         // the constant `subject`
  per_dimension,  // the argument is a list with an entry a dimension of `subject`
};

// Below zero: nothing, or as far down as the limit, counted from the end.
enum class Below : uint8_t { nothing, from_end };

struct Rule {
  std::string_view op;
  std::string_view argument;
  Limit limit = Limit::rows;
  std::string_view subject;
  Below below = Below::nothing;
  std::string_view ignored;  // the argument with one more integer that is allowed
  bool operator_checks = true;
  std::string_view producer;
  uint32_t producer_result = 0;
};

constexpr Rule checked(std::string_view op, std::string_view argument, Limit limit,
                       std::string_view subject, Below below = Below::nothing) {
  return {op, argument, limit, subject, below, {}, true, {}, 0};
}
constexpr Rule labels(std::string_view op) {
  return {op, "target", Limit::classes, "self", Below::nothing, "ignore_index", true, {}, 0};
}
constexpr Rule unchecked(std::string_view op, std::string_view argument, Limit limit,
                         std::string_view subject, std::string_view producer = {},
                         uint32_t result = 0) {
  return {op, argument, limit, subject, Below::nothing, {}, false, producer, result};
}

constexpr std::string_view kBag = "aten::_embedding_bag";

// Sorted by operator. The rules are those of torch 2.11's CPU kernels, each tried with integers on
// both sides of its limits (tests/adaptor/index_rules_test.cc tries them again).
// clang-format off
constexpr Rule kRules[] = {
    checked("aten::_embedding_bag", "indices", Limit::rows, "weight"),
    unchecked("aten::_embedding_bag", "offsets", Limit::ends, "indices"),
    unchecked("aten::_embedding_bag_backward", "indices", Limit::number, "num_weights"),
    unchecked("aten::_embedding_bag_backward", "offset2bag", Limit::rows, "grad", kBag, 1),
    unchecked("aten::_embedding_bag_dense_backward", "indices", Limit::number, "num_weights"),
    unchecked("aten::_embedding_bag_dense_backward", "offset2bag", Limit::rows, "grad", kBag, 1),
    checked("aten::_embedding_bag_forward_only", "indices", Limit::rows, "weight"),
    unchecked("aten::_embedding_bag_forward_only", "offsets", Limit::ends, "indices"),
    unchecked("aten::_embedding_bag_per_sample_weights_backward", "indices", Limit::rows, "weight"),
    unchecked("aten::_embedding_bag_per_sample_weights_backward", "offset2bag",
              Limit::rows, "grad", kBag, 1),
    checked("aten::_unsafe_index.Tensor", "indices", Limit::per_dimension, "self", Below::from_end),
    checked("aten::_unsafe_index_put", "indices", Limit::per_dimension, "self", Below::from_end),
    unchecked("aten::adaptive_max_pool2d_backward", "indices",
              Limit::plane, "self", "aten::adaptive_max_pool2d", 1),
    unchecked("aten::adaptive_max_pool3d_backward", "indices",
              Limit::volume, "self", "aten::adaptive_max_pool3d", 1),
    checked("aten::embedding", "indices", Limit::rows, "weight"),
    unchecked("aten::embedding_dense_backward", "indices", Limit::number, "num_weights"),
    checked("aten::embedding_renorm", "indices", Limit::rows, "self", Below::from_end),
    checked("aten::embedding_renorm_", "indices", Limit::rows, "self", Below::from_end),
    checked("aten::gather", "index", Limit::along_dim, "self"),
    checked("aten::index.Tensor", "indices", Limit::per_dimension, "self", Below::from_end),
    checked("aten::index_add", "index", Limit::along_dim, "self"),
    checked("aten::index_add_", "index", Limit::along_dim, "self"),
    checked("aten::index_copy", "index", Limit::along_dim, "self"),
    checked("aten::index_copy_", "index", Limit::along_dim, "self"),
    checked("aten::index_fill.int_Scalar", "index", Limit::along_dim, "self", Below::from_end),
    checked("aten::index_fill.int_Tensor", "index", Limit::along_dim, "self", Below::from_end),
    checked("aten::index_fill_.int_Scalar", "index", Limit::along_dim, "self", Below::from_end),
    checked("aten::index_fill_.int_Tensor", "index", Limit::along_dim, "self", Below::from_end),
    checked("aten::index_put", "indices", Limit::per_dimension, "self", Below::from_end),
    checked("aten::index_put_", "indices", Limit::per_dimension, "self", Below::from_end),
    checked("aten::index_reduce", "index", Limit::along_dim, "self"),
    checked("aten::index_reduce_", "index", Limit::along_dim, "self"),
    checked("aten::index_select", "index", Limit::along_dim, "self"),
    unchecked("aten::max_pool2d_with_indices_backward", "indices",
              Limit::plane, "self", "aten::max_pool2d_with_indices", 1),
    unchecked("aten::max_pool3d_with_indices_backward", "indices",
              Limit::volume, "self", "aten::max_pool3d_with_indices", 1),
    checked("aten::multi_margin_loss", "target", Limit::classes, "self"),
    checked("aten::multi_margin_loss_backward", "target", Limit::classes, "self"),
    labels("aten::nll_loss2d_backward"),
    labels("aten::nll_loss2d_forward"),
    labels("aten::nll_loss_backward"),
    labels("aten::nll_loss_forward"),
    checked("aten::put", "index", Limit::elements, "self", Below::from_end),
    checked("aten::put_", "index", Limit::elements, "self", Below::from_end),
    checked("aten::scatter.reduce", "index", Limit::along_dim, "self"),
    checked("aten::scatter.src", "index", Limit::along_dim, "self"),
    checked("aten::scatter.value", "index", Limit::along_dim, "self"),
    checked("aten::scatter.value_reduce", "index", Limit::along_dim, "self"),
    checked("aten::scatter_.reduce", "index", Limit::along_dim, "self"),
    checked("aten::scatter_.src", "index", Limit::along_dim, "self"),
    checked("aten::scatter_.value", "index", Limit::along_dim, "self"),
    checked("aten::scatter_.value_reduce", "index", Limit::along_dim, "self"),
    checked("aten::scatter_add", "index", Limit::along_dim, "self"),
    checked("aten::scatter_add_", "index", Limit::along_dim, "self"),
    checked("aten::scatter_reduce.two", "index", Limit::along_dim, "self"),
    checked("aten::scatter_reduce_.two", "index", Limit::along_dim, "self"),
    checked("aten::take", "index", Limit::elements, "self", Below::from_end),
};
// clang-format on
constexpr auto by_op = [](const Rule& a, const Rule& b) { return a.op < b.op; };
static_assert(std::is_sorted(std::begin(kRules), std::end(kRules), by_op));

struct Producer {
  std::string_view op;
  Limit limit;
  std::string_view subject;  // an argument; "": its first result
};
constexpr Producer kProducers[] = {
    {"aten::max_pool2d_with_indices", Limit::plane, "self"},
    {"aten::max_pool3d_with_indices", Limit::volume, "self"},
    {"aten::adaptive_max_pool2d", Limit::plane, "self"},
    {"aten::adaptive_max_pool3d", Limit::volume, "self"},
    {kBag, Limit::rows, ""},
};

// The number of integers from 0 on that `limit` allows; nothing where it is not known at load.
std::optional<uint64_t> limit_of(Limit limit, const lanes::Value& subject,
                                 std::optional<int64_t> dim) {
  const std::vector<int64_t>& sizes = subject.sizes;
  const auto dimensions = static_cast<int64_t>(sizes.size());
  const auto last = [&](size_t count) -> std::optional<uint64_t> {
    if (sizes.size() < count) return std::nullopt;
    return static_cast<uint64_t>(element_count(std::span(sizes).last(count)));
  };
  switch (limit) {
    case Limit::rows: return sizes.empty() ? 1 : static_cast<uint64_t>(sizes[0]);
    case Limit::classes:
      return sizes.empty() ? 1 : static_cast<uint64_t>(sizes[sizes.size() == 1 ? 0 : 1]);
    case Limit::along_dim:
      if (!dim) return std::nullopt;
      if (dimensions == 0) return 1;
      if (*dim < -dimensions || *dim >= dimensions) return std::nullopt;
      return static_cast<uint64_t>(sizes[static_cast<size_t>(*dim < 0 ? *dim + dimensions : *dim)]);
    case Limit::elements: return static_cast<uint64_t>(element_count(sizes));
    case Limit::ends: return static_cast<uint64_t>(element_count(sizes)) + 1;
    case Limit::plane: return last(2);
    case Limit::volume: return last(3);
    case Limit::number:
    case Limit::per_dimension: break;
  }
  return std::nullopt;
}

std::string_view remedy_of(const Rule& rule) {
  if (rule.limit == Limit::classes) {
    return "correct the label, or give the model's output more classes";
  }
  if (rule.limit == Limit::rows) return "correct the index, or give the table more rows";
  return "correct the index";
}

// Collects the uses of one node.
class NodeRules {
 public:
  NodeRules(const lanes::Graph& graph, uint32_t node)
      : graph_(graph), node_(node), arguments_(graph, graph.nodes[node]) {}

  Status add(const Rule& rule) {
    if (rule.limit == Limit::per_dimension) {
      add_list(rule);
      return {};
    }
    const std::optional<uint64_t> count = count_of(rule);
    const std::optional<int64_t> also =
        rule.ignored.empty() ? std::nullopt : arguments_.integer(rule.ignored);
    const bool known = count.has_value() && (rule.ignored.empty() || also.has_value());
    const lanes::ValueIndex index = arguments_.value(rule.argument);
    if (known && index != lanes::kNoValue) {
      add_use(rule, index, *count, also);
    } else if (!rule.operator_checks) {
      return Error{ErrorCode::invalid_graph,
                   "takes indices from '" + std::string(rule.argument) +
                       "' without looking at them, and what limits them ('" +
                       std::string(rule.subject) + "') is no tensor or constant of the graph"};
    }
    return {};
  }

  std::vector<IndexUse> take() { return std::move(uses_); }

 private:
  std::optional<uint64_t> count_of(const Rule& rule) const {
    if (rule.limit == Limit::number) {
      const std::optional<int64_t> number = arguments_.integer(rule.subject);
      if (!number.has_value() || *number < 0) return std::nullopt;
      return static_cast<uint64_t>(*number);
    }
    const lanes::Value* subject = arguments_.tensor(rule.subject);
    if (subject == nullptr) return std::nullopt;
    return limit_of(rule.limit, *subject, arguments_.integer("dim"));
  }

  // An entry a dimension; masks stand for as many dimensions as they have, None for one.
  void add_list(const Rule& rule) {
    const lanes::Value* subject = arguments_.tensor(rule.subject);
    const lanes::Argument* given = arguments_.find(rule.argument);
    const auto* list =
        given == nullptr ? nullptr : std::get_if<lanes::ListArgument>(&given->content);
    if (subject == nullptr || list == nullptr) return;
    size_t dimension = 0;
    for (const lanes::Argument& element : list->elements) {
      const auto* value = std::get_if<lanes::ValueArgument>(&element.content);
      size_t taken = 1;
      if (value != nullptr && graph_.values[value->value].kind == lanes::ValueKind::tensor) {
        const lanes::Value& index = graph_.values[value->value];
        const bool mask =
            index.dtype == lanes::DType::boolean || index.dtype == lanes::DType::uint8;
        if (mask) {
          taken = index.sizes.size();
        } else if (dimension < subject->sizes.size()) {
          add_use(rule, value->value, static_cast<uint64_t>(subject->sizes[dimension]), {});
        }
      }
      dimension += taken;
    }
  }

  void add_use(const Rule& rule, lanes::ValueIndex index, uint64_t count,
               std::optional<int64_t> also) {
    const lanes::Value& value = graph_.values[index];
    if (value.kind != lanes::ValueKind::tensor || !is_index_dtype(value.dtype)) return;
    IndexUse use;
    use.index = index;
    use.range = {0, count, also};
    if (rule.below == Below::from_end) {
      use.range.low = -static_cast<int64_t>(count);
      use.range.count = 2 * count;
    }
    use.node = node_;
    use.argument = rule.argument;
    use.remedy = remedy_of(rule);
    use.operator_checks = rule.operator_checks;
    use.producer = rule.producer;
    use.producer_result = rule.producer_result;
    uses_.push_back(use);
  }

  const lanes::Graph& graph_;
  const uint32_t node_;
  const NodeArguments arguments_;
  std::vector<IndexUse> uses_;
};

// An operator that gives nothing need not look at its indices.
bool gives_nothing(const lanes::Graph& graph, const lanes::Node& node) {
  if (node.results.empty() || node.results[0].values.empty()) return false;
  const lanes::ValueIndex first = node.results[0].values[0];
  if (first == lanes::kNoValue || graph.values[first].kind != lanes::ValueKind::tensor) {
    return false;
  }
  const std::vector<int64_t>& sizes = graph.values[first].sizes;
  return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
}

}  // namespace

Result<std::vector<IndexUse>> index_uses(const lanes::Graph& graph, uint32_t node) {
  const std::string_view op = graph.nodes[node].op;
  const auto [first, last] = std::equal_range(std::begin(kRules), std::end(kRules),
                                              checked(op, {}, Limit::rows, {}), by_op);
  if (first == last) return std::vector<IndexUse>{};
  if (first->operator_checks && gives_nothing(graph, graph.nodes[node])) {
    return std::vector<IndexUse>{};
  }
  NodeRules rules(graph, node);
  for (const Rule* rule = first; rule != last; ++rule) {
    if (Status added = rules.add(*rule); !added) return added.error();
  }
  return rules.take();
}

std::optional<uint64_t> produced_count(const lanes::Graph& graph, const lanes::Node& node) {
  const auto* found = std::find_if(std::begin(kProducers), std::end(kProducers),
                                   [&](const Producer& p) { return p.op == node.op; });
  if (found == std::end(kProducers)) return std::nullopt;
  const NodeArguments arguments(graph, node);
  const lanes::Value* subject = nullptr;
  if (!found->subject.empty()) {
    subject = arguments.tensor(found->subject);
  } else if (!node.results.empty() && !node.results[0].values.empty() &&
             node.results[0].values[0] != lanes::kNoValue) {
    subject = &graph.values[node.results[0].values[0]];
  }
  return subject == nullptr ? std::nullopt : limit_of(found->limit, *subject, {});
}

}  // namespace laneway::adaptor
