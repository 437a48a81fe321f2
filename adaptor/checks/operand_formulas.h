// operand_formulas: the rules about operands that the language of operands.h cannot express:
// formulas over constants, lists of tensors, rules that depend on a flag. Each function gets
// operands that have matched the rule's pattern, may use the pattern's letters, and returns
// invalid_graph or ok. Pure functions.
#pragma once

#include "adaptor/checks/operands.h"
#include "base/result.h"

namespace laneway::adaptor {

Status check_attention_heads(Operands& operands);      // H is a multiple of G
Status check_batch_norm_backward(Operands& operands);  // saved or running statistics, of size C
Status check_layer_norm_backward(Operands& operands);
Status check_group_norm(Operands& operands);
Status check_group_norm_backward(Operands& operands);
Status check_weight_norm(Operands& operands);
Status check_weight_norm_backward(Operands& operands);
Status check_convolution_backward(Operands& operands);
Status check_resampling_scales(Operands& operands);
Status check_unfold_backward(Operands& operands);
Status check_lu_pivots(Operands& operands);
Status check_cdist_backward(Operands& operands);
Status check_pair_count(Operands& operands);  // of _pdist_backward
Status check_pooled(Operands& operands);      // not empty, where there is a gradient
Status check_margin_gradient(Operands& operands);
Status check_median_dim(Operands& operands);
Status check_transform_dims(Operands& operands);  // of a Fourier transform
Status check_half_transform(Operands& operands);  // of one back to real numbers
Status check_whole_steps(Operands& operands);     // of arange and range
Status check_dense_copy(Operands& operands);      // of _reshape_alias_copy

Status check_head_count(Operands& operands);     // num_head is a positive constant
Status check_square_scores(Operands& operands);  // of _masked_softmax with a mask a row or a pair
Status check_training(Operands& operands);
Status check_whole_division(Operands& operands);   // stops the process at the smallest integer
Status check_common_multiple(Operands& operands);  // too

Status check_bag_offsets(Operands& operands);
Status check_repeats(Operands& operands);
Status check_bag_backward(Operands& operands);

Status check_recurrent_layer(Operands& operands);     // of mkldnn_rnn_layer: its biases
Status check_recurrent_backward(Operands& operands);  // of mkldnn_rnn_layer_backward

Status check_some_tensors(Operands& operands);  // of _stack
Status check_copied_lists(Operands& operands);  // of _foreach_copy
Status check_fused_sgd(Operands& operands);
Status check_fused_adam(Operands& operands);
Status check_fused_adagrad(Operands& operands);

}  // namespace laneway::adaptor
