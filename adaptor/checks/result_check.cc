#include "adaptor/checks/result_check.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "adaptor/checks/paired_check.h"
#include "adaptor/operators/torch_tensors.h"
#include "base/room_error.h"
#include "lanes/graph/graph_facts.h"

namespace laneway::adaptor {
namespace {

std::string sizes_text(c10::IntArrayRef sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + "]";
}

// Whether every element lies inside the tensor's storage. torch checks that for most views, but not
// for those that it makes for itself only (_reshape_alias).
bool lies_inside(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  uint64_t last = 0;
  bool overflow = __builtin_add_overflow(last, tensor.storage_offset(), &last);
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    uint64_t step = 0;
    overflow |= tensor.stride(d) < 0;
    overflow |= __builtin_mul_overflow(tensor.size(d) - 1, tensor.stride(d), &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  uint64_t bytes = 0;
  overflow |= __builtin_mul_overflow(last + 1, tensor.itemsize(), &bytes);
  return !overflow && tensor.storage_offset() >= 0 && bytes <= tensor.storage().nbytes();
}

// A number may lie on the CPU although the node ran elsewhere: operators give their seeds so, and
// all take them so.
bool lies_right(const at::Tensor& tensor, c10::Device device) {
  return tensor.device() == device || (tensor.is_cpu() && tensor.dim() == 0);
}

Status check_tensor(const at::Tensor& tensor, const lanes::Value& declared, c10::Device device) {
  const auto wrong = [](std::string what) {
    return Error{ErrorCode::invalid_graph, std::move(what)};
  };
  if (tensor.layout() != c10::Layout::Strided || !lies_right(tensor, device)) {
    return wrong(std::string("gave a tensor that is not strided (") +
                 c10::toString(tensor.scalar_type()) + ") on " + tensor.device().str() +
                 "; only plain tensors of the lane are results");
  }
  if (tensor.scalar_type() != scalar_type(declared.dtype) ||
      tensor.sizes() != c10::IntArrayRef(declared.sizes)) {
    return Error{ErrorCode::other_layout,
                 std::string("gave ") + c10::toString(tensor.scalar_type()) +
                     sizes_text(tensor.sizes()) + ", the graph declares " +
                     lanes::dtype_name(declared.dtype) + sizes_text(declared.sizes)};
  }
  if (!lies_inside(tensor)) {
    return wrong("gave a view that reaches beyond the " +
                 std::to_string(tensor.storage().nbytes()) + " bytes of its storage: sizes " +
                 sizes_text(tensor.sizes()) + ", strides " + sizes_text(tensor.strides()) +
                 ", offset " + std::to_string(tensor.storage_offset()));
  }
  return {};
}

Status copy_number(const c10::IValue& number, const lanes::OutputView& output) {
  if (number.isInt() || number.isBool()) {
    const int64_t whole = number.toScalar().toLong();
    std::memcpy(output.data, &whole, sizeof(whole));
  } else {
    const double real = number.toScalar().toDouble();
    std::memcpy(output.data, &real, sizeof(real));
  }
  return {};
}

}  // namespace

Status check_results(const lanes::Graph& graph, const lanes::Node& node,
                     const std::vector<c10::IValue>& values,
                     const std::vector<lanes::ValueIndex>& unused, c10::Device device) {
  for (size_t i = 0; i < node.results.size(); ++i) {
    for (const lanes::ValueIndex value : node.results[i].values) {
      if (value == lanes::kNoValue || !values[value].isTensor()) continue;
      const at::Tensor& tensor = values[value].toTensor();
      if (!tensor.defined()) {
        if (std::find(unused.begin(), unused.end(), value) != unused.end()) continue;
        return Error{ErrorCode::invalid_graph, "gave nothing for a result that the graph uses"};
      }
      lanes::Value declared = graph.values[value];
      if (is_library_sized(node.op, i)) declared.sizes = tensor.sizes().vec();
      if (Status right = check_tensor(tensor, declared, device); !right) return right;
    }
  }
  return {};
}

Status check_layouts(const lanes::Graph& graph, const lanes::Node& node,
                     const std::vector<c10::IValue>& values) {
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (is_library_sized(node.op, i)) continue;
    for (const lanes::ValueIndex value : node.results[i].values) {
      if (value == lanes::kNoValue || !values[value].isTensor()) continue;
      const at::Tensor& tensor = values[value].toTensor();
      if (!tensor.defined() || tensor.numel() <= 1) continue;
      const lanes::Value& declared = graph.values[value];
      // Views of slots and inputs count from the beginning of an image, say, which is not theirs.
      const bool own = graph.storages[declared.storage].kind == lanes::StorageKind::ephemeral;
      const int64_t base = own ? 0 : tensor.storage_offset() - declared.storage_offset;
      const Status placed = check_place(tensor, declared, base);
      if (!placed) return Error{ErrorCode::other_layout, placed.error().message};
    }
  }
  return {};
}

std::vector<bool> strided_storages(const lanes::Graph& graph) {
  std::vector<bool> strided(graph.storages.size(), false);
  for (const lanes::Node& node : graph.nodes) {
    if (!node.op.starts_with("aten::as_strided")) continue;
    lanes::for_each_argument_value(node, [&](lanes::ValueIndex value) {
      if (lanes::storage_of(graph, value) != nullptr) strided[graph.values[value].storage] = true;
    });
  }
  return strided;
}

Status check_place(const at::Tensor& tensor, const lanes::Value& declared, int64_t base) {
  bool same = tensor.storage_offset() == base + declared.storage_offset;
  for (size_t d = 0; d < declared.strides.size(); ++d) {
    same = same && (declared.sizes[d] == 1 ||
                    tensor.stride(static_cast<int64_t>(d)) == declared.strides[d]);
  }
  if (same || tensor.numel() == 0) return {};
  return Error{ErrorCode::invalid_graph,
               "gave a tensor with strides " + sizes_text(tensor.strides()) + " at element " +
                   std::to_string(tensor.storage_offset() - base) +
                   ", the graph declares strides " + sizes_text(declared.strides) + " at " +
                   std::to_string(declared.storage_offset)};
}

Status check_output_room(const c10::IValue& value, uint64_t bytes) {
  if (!value.isTensor()) {
    if (bytes == 8) return {};
    return wrong_room("an output that is a number", "bytes", {.needed = 8, .given = bytes});
  }
  const at::Tensor& tensor = value.toTensor();
  if (tensor.defined() && bytes == tensor.nbytes()) return {};
  return wrong_room("an output", "bytes",
                    {.needed = tensor.defined() ? tensor.nbytes() : 0, .given = bytes});
}

Status copy_out(const c10::IValue& value, const lanes::OutputView& output) {
  try {
    if (Status fits = check_output_room(value, output.bytes); !fits) return fits;
    if (!value.isTensor()) return copy_number(value, output);
    const at::Tensor& tensor = value.toTensor();
    if (output.bytes == 0) return {};
    // A conjugate or negative view has the bytes of what it is a view of.
    if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
      std::memcpy(output.data, tensor.const_data_ptr(), output.bytes);
    } else {
      contiguous_view(output.data, tensor.sizes(), tensor.scalar_type()).copy_(tensor);
    }
    return {};
  } catch (const std::exception& error) {
    return Error{ErrorCode::failed, std::string("an output cannot be copied out: ") + error.what()};
  }
}

}  // namespace laneway::adaptor
