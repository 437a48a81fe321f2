#include "adaptor/checks/paired_check.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "adaptor/checks/index_scan.h"
#include "adaptor/operators/node_arguments.h"
#include "adaptor/operators/torch_tensors.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {
namespace {

constexpr std::string_view kAttentionBackward =
    "aten::_scaled_dot_product_efficient_attention_backward";
constexpr std::string_view kLayerBackward = "aten::mkldnn_rnn_layer_backward";
constexpr std::string_view kRecurrent = "aten::_cudnn_rnn";
constexpr std::string_view kRecurrentBackward = "aten::_cudnn_rnn_backward";

struct Pair {
  std::string_view op;
  std::string_view partner;
  struct Given {
    std::string_view argument;  // of `op`; "" ends the list
    uint32_t result = 0;        // of `partner`
  } given[3];
  std::string_view same[5];  // arguments that both must have alike, contents included
  std::string_view shapes[14] =
      {};  // arguments that both must have alike, whose contents may change
};

constexpr Pair kPairs[] = {
    {"aten::_ctc_loss_backward",
     "aten::_ctc_loss",
     {{"neg_log_likelihood", 0}, {"log_alpha", 1}},
     {"log_probs", "targets", "input_lengths", "target_lengths", "blank"}},
    {"aten::_ctc_loss_backward.Tensor",
     "aten::_ctc_loss.Tensor",
     {{"neg_log_likelihood", 0}, {"log_alpha", 1}},
     {"log_probs", "targets", "input_lengths", "target_lengths", "blank"}},
    {kLayerBackward,
     "aten::mkldnn_rnn_layer",
     {{"output", 0}, {"workspace", 3}},
     {"input", "hx_", "hidden_size", "has_biases", "reverse"}},
    {"aten::linalg_ldl_solve", "aten::linalg_ldl_factor_ex", {{"LD", 0}, {"pivots", 1}}, {}},
    {kAttentionBackward,
     "aten::_scaled_dot_product_efficient_attention",
     {{"out", 0}, {"logsumexp", 1}},
     {},
     {"query", "key", "value", "attn_bias"}},
    {kRecurrentBackward,
     kRecurrent,
     {{"output", 0}, {"reserve", 3}, {"weight_buf", 4}},
     {},
     {"input", "weight", "weight_stride0", "hx", "cx", "mode", "hidden_size", "proj_size",
      "num_layers", "batch_first", "dropout", "train", "bidirectional", "batch_sizes"}},
};

bool any_is_written(const lanes::Graph& graph, const lanes::Argument& argument,
                    const IndexTrace& trace) {
  bool written = false;
  lanes::for_each_value(argument, [&](lanes::ValueIndex value) {
    const bool tensor = graph.values[value].kind == lanes::ValueKind::tensor;
    written = written || (tensor && trace.is_written(value));
  });
  return written;
}

// Whether both calls have the same constant, or the same values; with a trace, with the same bytes.
bool alike(const lanes::Graph& graph, const NodeArguments& a, const NodeArguments& b,
           std::string_view name, const IndexTrace* trace) {
  const lanes::Argument* in_a = a.find(name);
  const lanes::Argument* in_b = b.find(name);
  if (in_a == nullptr || in_b == nullptr) {
    const auto one = a.integer(name);
    return one && one == b.integer(name);
  }
  return *in_a == *in_b && (trace == nullptr || !any_is_written(graph, *in_a, *trace));
}

// What only a library knows the size of, only its partner takes.
Status check_opaque(const lanes::Graph& graph, const lanes::Node& call, const IndexTrace& trace) {
  if (call.op == kRecurrentBackward) return {};
  const auto opaque = [&](lanes::ValueIndex value) {
    if (graph.values[value].kind != lanes::ValueKind::tensor) return false;
    const uint32_t maker = trace.maker(value);
    if (maker >= graph.nodes.size()) return false;
    const std::vector<lanes::NodeResult>& results = graph.nodes[maker].results;
    for (size_t i = 0; i < results.size(); ++i) {
      const auto& values = results[i].values;
      const bool here = std::find(values.begin(), values.end(), value) != values.end();
      if (here && is_library_sized(graph.nodes[maker].op, i)) return true;
    }
    return false;
  };
  bool found = false;
  for (const lanes::NamedArgument& given : call.arguments) {
    lanes::for_each_value(given.argument,
                          [&](lanes::ValueIndex value) { found = found || opaque(value); });
  }
  if (!found) return {};
  return Error{ErrorCode::invalid_graph,
               "takes what " + std::string(kRecurrent) + " has kept for " +
                   std::string(kRecurrentBackward) +
                   ", whose size only the library knows; capture the step again"};
}

// Buffers of the caller's and states of a dropout would be read as far as the library wants.
Status check_recurrent(const lanes::Graph& graph, const lanes::Node& call) {
  const NodeArguments arguments(graph, call);
  for (const std::string_view name : {"weight_buf", "dropout_state"}) {
    const lanes::Argument* given = arguments.find(name);
    if (given != nullptr && !std::holds_alternative<lanes::NoneArgument>(given->content)) {
      return Error{ErrorCode::invalid_graph,
                   "argument '" + std::string(name) + "' must be None: the operator makes its own"};
    }
  }
  return {};
}

// The target lengths of a CTC loss; nothing when they are not whole numbers.
std::optional<std::vector<int64_t>> lengths_of(const lanes::Argument& argument,
                                               const std::vector<c10::IValue>& values) {
  std::vector<int64_t> lengths;
  if (const auto* list = std::get_if<lanes::ListArgument>(&argument.content)) {
    for (const lanes::Argument& element : list->elements) {
      const auto* number = std::get_if<int64_t>(&element.content);
      const auto* value = std::get_if<lanes::ValueArgument>(&element.content);
      if (number == nullptr && (value == nullptr || !values[value->value].isInt())) return {};
      lengths.push_back(number != nullptr ? *number : values[value->value].toInt());
    }
    return lengths;
  }
  const auto* value = std::get_if<lanes::ValueArgument>(&argument.content);
  if (value == nullptr || !values[value->value].isTensor()) return {};
  const at::Tensor tensor = on_host(values[value->value].toTensor());
  if (tensor.dim() > 1 || tensor.scalar_type() != at::kLong) return {};
  const int64_t step = tensor.dim() == 0 ? 0 : tensor.stride(0);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    lengths.push_back(tensor.const_data_ptr<int64_t>()[i * step]);
  }
  return lengths;
}

}  // namespace

bool is_library_sized(std::string_view op, size_t result) {
  return op == kRecurrent && (result == 3 || result == 4);
}

Status check_pairing(const lanes::Graph& graph, uint32_t node, const IndexTrace& trace) {
  const lanes::Node& call = graph.nodes[node];
  if (Status opaque = check_opaque(graph, call, trace); !opaque) return opaque;
  if (call.op == kRecurrent) return check_recurrent(graph, call);
  const auto* pair = std::find_if(std::begin(kPairs), std::end(kPairs),
                                  [&](const Pair& p) { return p.op == call.op; });
  if (pair == std::end(kPairs)) return {};
  const auto fault = [&](std::string_view argument) {
    return Error{ErrorCode::invalid_graph,
                 "argument '" + std::string(argument) + "' must be what " +
                     std::string(pair->partner) +
                     " had or gave, unchanged: the operator does not look at it, and other "
                     "contents read beyond its tensors; capture the step again"};
  };
  const NodeArguments arguments(graph, call);
  const lanes::ValueIndex key = arguments.value(pair->given[1].argument);
  if (key == lanes::kNoValue || graph.values[key].kind != lanes::ValueKind::tensor ||
      trace.maker(key) >= graph.nodes.size()) {
    return fault(pair->given[1].argument);
  }
  const lanes::Node& partner = graph.nodes[trace.maker(key)];
  if (partner.op != pair->partner) return fault(pair->given[1].argument);
  for (const Pair::Given& given : pair->given) {
    if (given.argument.empty()) continue;
    const lanes::ValueIndex value = arguments.value(given.argument);
    const bool same = given.result < partner.results.size() && value != lanes::kNoValue &&
                      partner.results[given.result].values == std::vector{value} &&
                      !trace.is_written(value);
    if (!same) return fault(given.argument);
  }
  const NodeArguments others(graph, partner);
  for (const std::string_view name : pair->same) {
    if (!name.empty() && !alike(graph, arguments, others, name, &trace)) return fault(name);
  }
  for (const std::string_view name : pair->shapes) {
    if (!name.empty() && !alike(graph, arguments, others, name, nullptr)) return fault(name);
  }
  // Without a workspace there is nothing to go back by.
  if (call.op == kLayerBackward && others.truth("train") == false) return fault("workspace");
  // Without its sums the kernel would read them all the same.
  if (call.op == kAttentionBackward && others.truth("compute_log_sumexp") != true) {
    return fault("logsumexp");
  }
  // One gradient a loss: it is read for each.
  const lanes::Value* gradient = arguments.tensor("grad");
  const lanes::Value* loss = arguments.tensor("neg_log_likelihood");
  if (loss != nullptr && (gradient == nullptr || gradient->sizes != loss->sizes)) {
    return fault("grad");
  }
  return {};
}

bool is_ctc_loss(const lanes::Node& node) {
  return node.op == "aten::_ctc_loss" || node.op == "aten::_ctc_loss.Tensor";
}

Status check_ctc_labels(const lanes::Graph& graph, uint32_t node,
                        const std::vector<c10::IValue>& values) {
  const NodeArguments arguments(graph, graph.nodes[node]);
  const lanes::Value* scores = arguments.tensor("log_probs");
  const lanes::ValueIndex targets = arguments.value("targets");
  const lanes::Argument* given = arguments.find("target_lengths");
  const Error unknown{ErrorCode::invalid_graph, "has no labels or lengths that can be looked at"};
  if (scores == nullptr || scores->sizes.empty() || targets == lanes::kNoValue ||
      given == nullptr || !is_index_dtype(graph.values[targets].dtype)) {
    return unknown;
  }
  const auto lengths = lengths_of(*given, values);
  if (!lengths) return unknown;
  const at::Tensor labels = on_host(values[targets].toTensor());
  const lanes::DType dtype = graph.values[targets].dtype;
  const int64_t classes = scores->sizes.back();
  const IndexRange range{0, static_cast<uint64_t>(classes), {}};
  const auto refuse = [&](const IndexElements::Outside& found) {
    return Error{ErrorCode::invalid_argument,
                 "label " + std::to_string(found.value) + " is not in 0 to " +
                     std::to_string(classes - 1) +
                     "; correct the label, or give the model's output more classes"};
  };
  const int64_t element = lanes::dtype_bytes(dtype);
  if (labels.dim() != 2) {
    const IndexElements all(dtype, 0, labels.sizes().vec(), labels.strides().vec());
    const auto found = all.first_outside(labels.const_data_ptr(), range);
    return found ? Status(refuse(*found)) : Status();
  }
  // What lies behind a row's length is padding and may be anything.
  const auto* bytes = static_cast<const std::byte*>(labels.const_data_ptr());
  for (int64_t row = 0; row < labels.size(0); ++row) {
    const int64_t length = static_cast<size_t>(row) < lengths->size()
                               ? std::clamp<int64_t>((*lengths)[row], 0, labels.size(1))
                               : labels.size(1);
    const IndexElements used(dtype, 0, {length}, {labels.stride(1)});
    const auto found = used.first_outside(bytes + row * labels.stride(0) * element, range);
    if (found) return refuse(*found);
  }
  return {};
}

}  // namespace laneway::adaptor
