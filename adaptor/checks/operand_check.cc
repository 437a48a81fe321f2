#include "adaptor/checks/operand_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/result_type.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "adaptor/checks/index_scan.h"
#include "adaptor/checks/operand_formulas.h"
#include "adaptor/operators/torch_tensors.h"
#include "lanes/graph/graph_text.h"

namespace laneway::adaptor {
namespace {

struct Rule {
  std::string_view op;
  std::string_view pattern;
  Status (*formula)(Operands&) = nullptr;
};

constexpr std::string_view kBatchNorm =
    "input[N C *S] weight?[C] bias?[C] running_mean?[C] running_var?[C]";
constexpr std::string_view kStatisticsGiven =
    "input[N C *S] weight?[C] bias?[C] running_mean[C] running_var[C]";
constexpr std::string_view kBatchNormBackward =
    "input[N C *S] grad_out[N C *S] weight?[C] running_mean?[C] running_var?[C]";
constexpr std::string_view kBag = "weight[W D] indices[I]! offsets[O]! per_sample_weights?[I]";
constexpr std::string_view kPooled2d = "self[*L H W] grad_output[*L h w]";
constexpr std::string_view kPooled3d = "self[*L D H W] grad_output[*L d h w]";
constexpr std::string_view kPooledAt2d = "self[*L H W] grad_output[*L h w] indices[*L h w]!";
constexpr std::string_view kPooledAt3d = "self[*L D H W] grad_output[*L d h w] indices[*L d h w]!";
constexpr std::string_view kPadded1d = "self[*L W] grad_output[*L w] padding(#2)";
constexpr std::string_view kPadded2d = "self[*L H W] grad_output[*L h w] padding(#4)";
constexpr std::string_view kPadded3d = "self[*L D H W] grad_output[*L d h w] padding(#6)";

// Sorted by operator; torch 2.11's CPU kernels.
// clang-format off
constexpr Rule kRules[] = {
    {"aten::_adaptive_avg_pool2d_backward", kPooled2d, check_pooled},
    {"aten::_adaptive_avg_pool3d_backward", kPooled3d, check_pooled},
    {"aten::_batch_norm_no_update", kStatisticsGiven},
    {"aten::_batch_norm_with_update", kBatchNorm},
    {"aten::_batch_norm_with_update_functional", kBatchNorm},
    {"aten::_cdist_backward", "x1[*A P M] x2[*B R M]", check_cdist_backward},
    {"aten::_cholesky_solve_helper", "A[*B N N] self[*B N K]"},
    {"aten::_cudnn_rnn", "batch_sizes(#0)"},
    {"aten::_cudnn_rnn_backward", "batch_sizes(#0)"},
    {"aten::_embedding_bag", kBag, check_bag_offsets},
    {"aten::_embedding_bag_backward",
     "grad[B D] indices[I]! offsets[O]! offset2bag[_]! bag_size[_]! maximum_indices[*M]! per_sample_weights?[I]", check_bag_backward},
    {"aten::_embedding_bag_dense_backward",
     "grad[B D] indices[I]! offset2bag[_]! bag_size[B]! maximum_indices[*M]! per_sample_weights?[I]", check_bag_backward},
    {"aten::_embedding_bag_forward_only", kBag, check_bag_offsets},
    {"aten::_embedding_bag_per_sample_weights_backward",
     "grad[B D] weight[W D] indices[I]! offsets[O]! offset2bag[_]!", check_bag_backward},
    {"aten::_fft_c2c", "self[*S]", check_transform_dims},
    {"aten::_fft_c2r", "self[*S]", check_half_transform},
    {"aten::_fft_r2c", "self[*S]", check_transform_dims},
    {"aten::_foreach_copy", "", check_copied_lists},
    {"aten::_fused_adagrad", "", check_fused_adagrad},
    {"aten::_fused_adagrad.tensor_lr", "", check_fused_adagrad},
    {"aten::_fused_adagrad_", "", check_fused_adagrad},
    {"aten::_fused_adagrad_.tensor_lr", "", check_fused_adagrad},
    {"aten::_fused_adam", "", check_fused_adam},
    {"aten::_fused_adam.tensor_lr", "", check_fused_adam},
    {"aten::_fused_adam_", "", check_fused_adam},
    {"aten::_fused_adam_.tensor_lr", "", check_fused_adam},
    {"aten::_fused_adamw", "", check_fused_adam},
    {"aten::_fused_adamw.tensor_lr", "", check_fused_adam},
    {"aten::_fused_adamw_", "", check_fused_adam},
    {"aten::_fused_adamw_.tensor_lr", "", check_fused_adam},
    {"aten::_fused_sgd", "", check_fused_sgd},
    {"aten::_fused_sgd.tensor_lr", "", check_fused_sgd},
    {"aten::_fused_sgd_", "", check_fused_sgd},
    {"aten::_fused_sgd_.tensor_lr", "", check_fused_sgd},
    {"aten::_log_softmax_backward_data", "grad_output[*S] output[*S]"},
    {"aten::_masked_softmax", "self[*S]", check_square_scores},
    {"aten::_masked_softmax_backward", "grad_output[*S] output[*S] mask[*S]"},
    {"aten::_native_batch_norm_legit", kBatchNorm},
    {"aten::_native_batch_norm_legit.no_stats", kBatchNorm, check_training},
    {"aten::_native_batch_norm_legit_functional", kBatchNorm},
    {"aten::_native_batch_norm_legit_no_training", kStatisticsGiven},
    {"aten::_native_multi_head_attention",
     "query[*Q]:T key[*K]:T value[*V]:T qkv_weight[_ _]:T qkv_bias[_]:T proj_weight[_ _]:T proj_bias[_]:T", check_head_count},
    {"aten::_pdist_backward", "self[N M]", check_pair_count},
    {"aten::_pdist_forward", "self[N M]"},
    {"aten::_reshape_alias_copy", "self[*S]!", check_dense_copy},
    {"aten::_scaled_dot_product_efficient_attention",
     "query[B H M K]:F key[B H N K]:F value[B H N V]:F attn_bias?[B H M N]:F"},
    {"aten::_scaled_dot_product_efficient_attention_backward",
     "query[B H M K]:F key[B H N K]:F value[B H N V]:F attn_bias?[B H M N]:F grad_out_[B H M V]:F"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu",
     "query[B H Q D]/ key[B G K D]/ value[B G K D]/", check_attention_heads},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     "query[B H Q D]/ key[B G K D]/ value[B G K D]/ out[B H Q D]/ grad_out[B H Q D] logsumexp[B H Q]", check_attention_heads},
    {"aten::_softmax_backward_data", "grad_output[*S] output[*S]"},
    {"aten::_stack", "", check_some_tensors},
    {"aten::_transformer_encoder_layer_fwd",
     "src[*S]:T qkv_weight[_ _]:T qkv_bias[_]:T proj_weight[_ _]:T proj_bias[_]:T norm_weight_1[_]:T norm_bias_1[_]:T norm_weight_2[_]:T norm_bias_2[_]:T ffn_weight_1[_ _]:T ffn_bias_1[_]:T ffn_weight_2[_ _]:T ffn_bias_2[_]:T"},
    {"aten::_upsample_bicubic2d_aa", "self[_ _ _ _] output_size(#2)", check_resampling_scales},
    {"aten::_upsample_bicubic2d_aa_backward", "output_size(#2)", check_resampling_scales},
    {"aten::_upsample_bilinear2d_aa", "self[_ _ _ _] output_size(#2)", check_resampling_scales},
    {"aten::_upsample_bilinear2d_aa_backward", "output_size(#2)", check_resampling_scales},
    {"aten::_weight_norm_interface", "v[*S]! g[*G]!", check_weight_norm},
    {"aten::_weight_norm_interface_backward",
     "saved_v[*S]! grad_w[*S]! saved_g[*G]! saved_norms[*G]!", check_weight_norm_backward},
    {"aten::adaptive_max_pool2d_backward", kPooledAt2d, check_pooled},
    {"aten::adaptive_max_pool3d_backward", kPooledAt3d, check_pooled},
    {"aten::addbmm_", "batch1[B N M] batch2[B M P] self[N P]"},
    {"aten::arange.start_step", "", check_whole_steps},
    {"aten::avg_pool2d_backward", kPooled2d, check_pooled},
    {"aten::avg_pool3d_backward", kPooled3d, check_pooled},
    {"aten::batch_norm_backward", kBatchNormBackward, check_batch_norm_backward},
    {"aten::batch_norm_update_stats", "input[N C *S] running_mean?[C] running_var?[C]"},
    {"aten::convolution_backward", "input[*I] weight[*W]", check_convolution_backward},
    {"aten::div.Scalar_mode", "", check_whole_division},
    {"aten::div.Tensor_mode", "", check_whole_division},
    {"aten::div_.Scalar_mode", "", check_whole_division},
    {"aten::div_.Tensor_mode", "", check_whole_division},
    {"aten::fractional_max_pool2d_backward",
     "self[*L H W] grad_output[*L h w] output_size(h w) kernel_size(#2) indices[*L h w]!"},
    {"aten::fractional_max_pool3d_backward",
     "self[*L D H W] grad_output[*L d h w] output_size(d h w) kernel_size(#3) indices[*L d h w]!"},
    {"aten::grid_sampler_2d_backward", "input[N C a b] grid[N H W 2] grad_output[N C H W]"},
    {"aten::grid_sampler_3d_backward", "input[N C a b c] grid[N D H W 3] grad_output[N C D H W]"},
    {"aten::lcm", "", check_common_multiple},
    {"aten::lcm_", "", check_common_multiple},
    {"aten::lu_unpack", "LU_data[*B M N]", check_lu_pivots},
    {"aten::max_pool2d_with_indices_backward", kPooledAt2d, check_pooled},
    {"aten::max_pool3d_with_indices_backward", kPooledAt3d, check_pooled},
    {"aten::median.dim", "self[*S]", check_median_dim},
    {"aten::mkldnn_rnn_layer",
     "mode=2 batch_sizes(#0) hidden_size=H input[T B I]:F! weight0[4H I]:F! weight1[4H H]:F! hx_[B H]:F! cx_[B H]:F!", check_recurrent_layer},
    {"aten::mkldnn_rnn_layer_backward",
     "mode=2 batch_sizes(#0) hidden_size=H input[T B I]:F! weight1[4H I]:F! weight2[4H H]:F! hx_[B H]:F! cx_tmp[B H]:F! output[T B H]:F hy_[B H]:F! cy_[B H]:F! grad_output?[T B H]:F grad_hy?[B H]:F grad_cy?[B H]:F", check_recurrent_backward},
    {"aten::multi_margin_loss_backward", "", check_margin_gradient},
    {"aten::multilabel_margin_loss_backward", "", check_margin_gradient},
    {"aten::nanmedian.dim", "self[*S]", check_median_dim},
    {"aten::native_batch_norm_backward", kBatchNormBackward, check_batch_norm_backward},
    {"aten::native_group_norm",
     "N=N C=C HxW=HxW group=G input[*S] weight?[C]! bias?[C]!", check_group_norm},
    {"aten::native_group_norm_backward",
     "N=N C=C HxW=HxW group=G input[*S]! grad_out[*S]! mean[N G]! rstd[N G]! weight?[C]!", check_group_norm_backward},
    {"aten::native_layer_norm_backward",
     "input[*S] grad_out[*S] mean[*M]! rstd[*R]! weight?[*W]", check_layer_norm_backward},
    {"aten::reflection_pad1d_backward", kPadded1d},
    {"aten::reflection_pad2d", "padding(#4)"},
    {"aten::reflection_pad2d_backward", kPadded2d},
    {"aten::reflection_pad3d", "padding(#6)"},
    {"aten::reflection_pad3d_backward", kPadded3d},
    {"aten::repeat_interleave.Tensor", "repeats[_]", check_repeats},
    {"aten::replication_pad1d_backward", kPadded1d},
    {"aten::replication_pad2d_backward", kPadded2d},
    {"aten::replication_pad3d_backward", kPadded3d},
    {"aten::rrelu_with_noise", "self[*S] noise[*S]!"},
    {"aten::rrelu_with_noise_", "self[*S] noise[*S]!"},
    {"aten::rrelu_with_noise_functional", "self[*S] noise[*S]!"},
    {"aten::slow_conv3d_forward", "weight[O I a b c] kernel_size(a b c) stride(#3) padding(#3)"},
    {"aten::slow_conv_dilated2d",
     "weight[O I a b] kernel_size(a b) stride(#2) padding(#2) dilation(#2)"},
    {"aten::slow_conv_dilated3d",
     "weight[O I a b c] kernel_size(a b c) stride(#3) padding(#3) dilation(#3)"},
    {"aten::slow_conv_transpose2d",
     "weight[I O a b] kernel_size(a b) stride(#2) padding(#2) output_padding(#2) dilation(#2)"},
    {"aten::slow_conv_transpose3d",
     "weight[I O a b c] kernel_size(a b c) stride(#3) padding(#3) output_padding(#3) dilation(#3)"},
    {"aten::unfold_backward", "", check_unfold_backward},
};
// clang-format on
constexpr auto by_op = [](const Rule& a, const Rule& b) { return a.op < b.op; };
static_assert(std::is_sorted(std::begin(kRules), std::end(kRules), by_op));

const Rule* rule_of(std::string_view op) {
  const auto* found = std::lower_bound(std::begin(kRules), std::end(kRules), Rule{op, {}}, by_op);
  return found != std::end(kRules) && found->op == op ? found : nullptr;
}

bool is_whole(const at::Tensor& tensor) {
  const c10::ScalarType type = tensor.scalar_type();
  return type == c10::ScalarType::Int || type == c10::ScalarType::Long;
}

// Whether an element is `number`.
bool has(const at::Tensor& given, int64_t number) {
  const at::Tensor tensor = on_host(given);
  const lanes::DType dtype =
      tensor.scalar_type() == c10::ScalarType::Int ? lanes::DType::int32 : lanes::DType::int64;
  const IndexElements all(dtype, 0, tensor.sizes().vec(), tensor.strides().vec());
  // All integers but that one, counted from the next.
  const IndexRange others{static_cast<int64_t>(static_cast<uint64_t>(number) + 1), UINT64_MAX, {}};
  return all.first_outside(tensor.const_data_ptr(), others).has_value();
}

bool has_smallest(const at::Tensor& tensor) {
  return is_whole(tensor) &&
         has(tensor, tensor.scalar_type() == c10::ScalarType::Int ? INT32_MIN : INT64_MIN);
}

bool has_minus_one(const at::Tensor& tensor) {
  return is_whole(tensor) ? has(tensor, -1) : c10::isIntegralType(tensor.scalar_type(), false);
}

// Whether no element is negative and all together are `total`, or anything if that is negative.
bool counts_to(const at::Tensor& given, int64_t total) {
  const at::Tensor here = on_host(given).to(c10::ScalarType::Long).contiguous();
  const int64_t* counts = here.const_data_ptr<int64_t>();
  int64_t sum = 0;
  for (int64_t i = 0; i < here.numel(); ++i) {
    if (counts[i] < 0 || __builtin_add_overflow(sum, counts[i], &sum)) return false;
  }
  return total < 0 || sum == total;
}

bool is_met(const OperandNeed& need, const at::Tensor& tensor,
            const std::vector<c10::IValue>& values) {
  switch (need.kind) {
    case OperandNeed::Kind::not_expanded:
    case OperandNeed::Kind::dense_rows:
    case OperandNeed::Kind::not_expanded_in:
      return layout_fits(need, tensor.sizes(), tensor.strides());
    case OperandNeed::Kind::last_reaches: {
      if (tensor.dim() != 1 || tensor.numel() == 0 || !is_whole(tensor)) return false;
      const at::Tensor here = on_host(tensor);
      const int64_t last = (here.numel() - 1) * here.stride(0);
      return need.number <= (here.scalar_type() == c10::ScalarType::Int
                                 ? here.const_data_ptr<int32_t>()[last]
                                 : here.const_data_ptr<int64_t>()[last]);
    }
    case OperandNeed::Kind::divides: {
      if (!has_smallest(tensor)) return true;
      if (need.other == lanes::kNoValue) return false;
      const c10::IValue& other = values[need.other];
      if (!other.isTensor()) return !other.isInt() || other.toInt() != -1;
      // In a wider dtype there is no overflow; in a floating one neither.
      const at::Tensor& divisor = other.toTensor();
      return at::result_type(tensor, divisor) != tensor.scalar_type() || !has_minus_one(divisor);
    }
    case OperandNeed::Kind::not_smallest: return !has_smallest(tensor);
    case OperandNeed::Kind::counts: return is_whole(tensor) && counts_to(tensor, need.number);
  }
  return false;
}

Error wrong_need(const OperandNeed& need) {
  return Operands::wrong(need.argument, "must have " + need_text(need));
}

}  // namespace

Result<OperandCheck> OperandCheck::make(const lanes::Graph& graph,
                                        const std::vector<bool>& is_static) {
  OperandCheck check;
  for (uint32_t index = 0; index < graph.nodes.size(); ++index) {
    const Rule* rule = rule_of(graph.nodes[index].op);
    if (rule == nullptr) continue;
    Operands operands(graph, graph.nodes[index]);
    Status right = operands.match(rule->pattern);
    if (right && rule->formula != nullptr) right = rule->formula(operands);
    if (!right) return lanes::node_error(graph, index, right.error().message);
    for (OperandNeed& need : operands.take_needs()) {
      const lanes::Value& value = graph.values[need.value];
      if (!need.is_layout() || !is_static[need.value]) {
        check.needs_.push_back({index, std::move(need)});
      } else if (!layout_fits(need, value.sizes, value.strides)) {
        return lanes::node_error(graph, index, wrong_need(need).message);
      }
    }
    if (!check.needs_.empty() && check.needs_.back().node == index) {
      check.checked_nodes_.push_back(index);
    }
  }
  return check;
}

std::optional<uint32_t> OperandCheck::first_reader_of_contents() const {
  const auto first = std::find_if(needs_.begin(), needs_.end(),
                                  [](const NodeNeed& node) { return !node.need.is_layout(); });
  return first == needs_.end() ? std::nullopt : std::optional(first->node);
}

Status OperandCheck::check_node(uint32_t node, const std::vector<c10::IValue>& values) const {
  auto need = std::lower_bound(needs_.begin(), needs_.end(), node,
                               [](const NodeNeed& n, uint32_t wanted) { return n.node < wanted; });
  for (; need != needs_.end() && need->node == node; ++need) {
    const c10::IValue& value = values[need->need.value];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    if (!is_met(need->need, value.toTensor(), values)) return wrong_need(need->need);
  }
  return {};
}

}  // namespace laneway::adaptor
