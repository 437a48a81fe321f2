// Rules over storages, values, inputs and outputs: graph_rules.h has their contracts.
#include <optional>
#include <unordered_map>

#include "base/limits.h"
#include "lanes/graph/graph_rules.h"
#include "lanes/graph/graph_text.h"
#include "lanes/graph/limits.h"

namespace laneway::lanes {
namespace {

std::string over(const char* what, uint64_t value, uint64_t limit) {
  return std::string(what) + " " + std::to_string(value) + " is over the limit of " +
         std::to_string(limit);
}

// a * b and a + b where they do not overflow.
std::optional<uint64_t> product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}
std::optional<uint64_t> sum(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

bool is_empty(const Value& value) {
  for (const int64_t size : value.sizes) {
    if (size == 0) return true;
  }
  return false;
}

// Bytes of as many elements as the sizes say, repeated ones (stride 0) counted; nothing when that
// overflows. Sizes are not negative.
std::optional<uint64_t> dense_bytes(const Value& value) {
  std::optional<uint64_t> bytes = static_cast<uint64_t>(dtype_bytes(value.dtype));
  for (const int64_t size : value.sizes) {
    if (bytes) bytes = product(*bytes, static_cast<uint64_t>(size));
  }
  return bytes;
}

// Bytes of the storage up to the last element of a tensor that has one; nothing on overflow.
std::optional<uint64_t> extent_bytes(const Value& value) {
  std::optional<uint64_t> elements = static_cast<uint64_t>(value.storage_offset);
  for (size_t i = 0; i < value.sizes.size() && elements; ++i) {
    const auto step =
        product(static_cast<uint64_t>(value.sizes[i] - 1), static_cast<uint64_t>(value.strides[i]));
    elements = step ? sum(*elements, *step) : std::nullopt;
  }
  if (elements) elements = sum(*elements, 1);
  if (elements) elements = product(*elements, static_cast<uint64_t>(dtype_bytes(value.dtype)));
  return elements;
}

}  // namespace

Status check_limits(const Graph& graph) {
  const struct {
    const char* what;
    size_t count;
    uint64_t limit;
  } counts[] = {
      {"node count", graph.nodes.size(), limits::kMaxGraphNodes},
      {"value count", graph.values.size(), limits::kMaxGraphValues},
      {"storage count", graph.storages.size(), limits::kMaxGraphValues},
      {"input count", graph.inputs.size(), limits::kMaxGraphInputs},
      {"output count", graph.outputs.size(), limits::kMaxGraphOutputs},
  };
  for (const auto& entry : counts) {
    if (entry.count > entry.limit) {
      return graph_error(
          graph, over(entry.what, entry.count, entry.limit) + "; split the step into smaller ones");
    }
  }
  return {};
}

Status check_context(const Graph& graph) {
  const NumericContext& context = graph.context;
  if (context.threads < 1 || context.threads > limits::kMaxThreads) {
    return graph_error(graph, "thread count " + std::to_string(context.threads) +
                                  " is not in 1 to " + std::to_string(limits::kMaxThreads) +
                                  "; set torch.set_num_threads before capture");
  }
  for (size_t use = 0; use < kFloat32Uses; ++use) {
    const bool of_cuda = use <= static_cast<size_t>(Float32Use::cuda_rnn);
    const auto most =
        static_cast<uint64_t>(of_cuda ? Float32Precision::tf32 : Float32Precision::bf16);
    const auto wanted = static_cast<uint64_t>(context.float32[use]);
    if (wanted > most) {
      const char* const what =
          of_cuda ? "float32 precision of CUDA" : "float32 precision of oneDNN";
      return graph_error(
          graph, over(what, wanted, most) + "; it is 0 full, 1 TF32, or for oneDNN 2 bfloat16");
    }
  }
  const DType dtype = context.default_dtype;
  if (dtype != DType::float16 && dtype != DType::bfloat16 && dtype != DType::float32 &&
      dtype != DType::float64) {
    return graph_error(graph, std::string("default dtype ") + dtype_name(dtype) +
                                  " is not a floating one; set torch.set_default_dtype");
  }
  return {};
}

Status check_storages(const Graph& graph) {
  uint64_t total = 0;
  for (size_t i = 0; i < graph.storages.size(); ++i) {
    const Storage& storage = graph.storages[i];
    const std::string name = "storage " + std::to_string(i);
    if (storage.bytes > limits::kMaxTensorBytes) {
      return graph_error(graph, name + ": " + over("size", storage.bytes, limits::kMaxTensorBytes) +
                                    " bytes; make the tensor smaller");
    }
    total += storage.bytes;
    if (total > limits::kMaxGraphStorageBytes) {
      return graph_error(graph, name + ": " +
                                    over("the sum of all storages so far of", total,
                                         limits::kMaxGraphStorageBytes) +
                                    " bytes; split the step into smaller ones");
    }
    const bool persistent = storage.kind == StorageKind::persistent;
    if (persistent && storage.index >= limits::kMaxImageSlots) {
      return graph_error(graph, name + ": slot " + std::to_string(storage.index) +
                                    " is not below the limit of " +
                                    std::to_string(limits::kMaxImageSlots) + " slots of an image");
    }
    if (storage.kind == StorageKind::ephemeral && storage.index != 0) {
      return graph_error(graph, name + ": index " + std::to_string(storage.index) +
                                    " of an ephemeral storage must be 0; capture the step again");
    }
  }
  return {};
}

Status check_storages_are_unique(const Graph& graph) {
  std::unordered_map<uint64_t, size_t> seen;
  for (size_t i = 0; i < graph.storages.size(); ++i) {
    const Storage& storage = graph.storages[i];
    if (storage.kind == StorageKind::ephemeral) continue;
    const uint64_t key = uint64_t{storage.index} * 2 + (storage.kind == StorageKind::persistent);
    const auto [first, added] = seen.try_emplace(key, i);
    if (added) continue;
    const char* what = storage.kind == StorageKind::persistent ? "slot " : "input ";
    return graph_error(graph, "storages " + std::to_string(first->second) + " and " +
                                  std::to_string(i) + " are both " + what +
                                  std::to_string(storage.index) +
                                  "; tensors that share memory name one storage");
  }
  return {};
}

Status check_value_forms(const Graph& graph) {
  for (ValueIndex i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    const std::string name = "value " + std::to_string(i);
    if (value.kind != ValueKind::tensor) {
      Value plain;
      plain.kind = value.kind;
      if (value == plain) continue;
      return graph_error(graph, name + " is a number and has fields of a tensor; leave them empty");
    }
    if (value.storage >= graph.storages.size()) {
      return graph_error(graph, name + ": storage " + std::to_string(value.storage) +
                                    " is not in the graph, which has " +
                                    std::to_string(graph.storages.size()));
    }
    if (value.sizes.size() != value.strides.size()) {
      return graph_error(graph, name + " has " + std::to_string(value.sizes.size()) +
                                    " sizes and " + std::to_string(value.strides.size()) +
                                    " strides; give one stride a size");
    }
    if (value.sizes.size() > limits::kMaxTensorDimensions) {
      return graph_error(
          graph,
          name + ": " + over("dimension count", value.sizes.size(), limits::kMaxTensorDimensions));
    }
    const auto legal = [](int64_t n) {
      return n >= 0 && static_cast<uint64_t>(n) <= limits::kMaxTensorBytes;
    };
    const std::string range = " is not in 0 to " + std::to_string(limits::kMaxTensorBytes);
    if (!legal(value.storage_offset)) {
      return graph_error(graph, name + ": offset " + std::to_string(value.storage_offset) + range);
    }
    for (size_t d = 0; d < value.sizes.size(); ++d) {
      const bool bad_size = !legal(value.sizes[d]);
      if (!bad_size && legal(value.strides[d])) continue;
      return graph_error(graph, name + ": " + (bad_size ? "size " : "stride ") +
                                    std::to_string(bad_size ? value.sizes[d] : value.strides[d]) +
                                    " of dimension " + std::to_string(d) + range);
    }
  }
  return {};
}

Status check_views_fit(const Graph& graph) {
  for (ValueIndex i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind != ValueKind::tensor || is_empty(value)) continue;
    const std::optional<uint64_t> dense = dense_bytes(value);
    if (!dense || *dense > limits::kMaxTensorBytes) {
      return graph_error(graph, value_text(graph, i) + " has more elements than fit " +
                                    std::to_string(limits::kMaxTensorBytes) +
                                    " bytes, the limit; make it smaller");
    }
    const std::optional<uint64_t> extent = extent_bytes(value);
    const uint64_t bytes = graph.storages[value.storage].bytes;
    if (!extent || *extent > bytes) {
      return graph_error(graph, value_text(graph, i) + " reaches to byte " +
                                    (extent ? std::to_string(*extent) : "2^64 and beyond") +
                                    " of storage " + std::to_string(value.storage) +
                                    ", which has " + std::to_string(bytes) +
                                    " bytes; capture the step again");
    }
  }
  return {};
}

Status check_interface(const Graph& graph) {
  const auto in_range = [&](const std::vector<ValueIndex>& list, const char* what) -> Status {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] < graph.values.size()) continue;
      return graph_error(graph, std::string(what) + " " + std::to_string(i) + " is value " +
                                    std::to_string(list[i]) + ", the graph has " +
                                    std::to_string(graph.values.size()));
    }
    return {};
  };
  if (Status status = in_range(graph.inputs, "input"); !status) return status;
  return in_range(graph.outputs, "output");
}

}  // namespace laneway::lanes
