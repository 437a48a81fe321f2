// Graph: one iteration as data. Operator calls (nodes) over numbered values; nothing in it is code
// and nothing in it is an address. Python's capture writes it, graph_codec carries it, graph_check
// validates all that needs no operator schema, graph_sizes derives P, E and first uses, and the
// adaptor resolves the operators. A plain value; not thread-safe while it is changed.
//
// Storage is the unit of memory: values that are views of each other name the same storage. A
// storage is persistent (a slot of the job's image), an input (bytes that the client sends with
// each iteration) or ephemeral (allocated by the node that first makes a value of it, free after
// the last use of any of its values).
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/image_slot.h"
#include "base/value_kind.h"

namespace laneway::lanes {

// Numbered as in the binary form; never renumber.
enum class DType : uint8_t {
  boolean = 0,
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float16 = 6,
  bfloat16 = 7,
  float32 = 8,
  float64 = 9,
  complex64 = 10,
  complex128 = 11,
};
inline constexpr uint8_t kDTypeCount = 12;

// Bytes of one element.
int64_t dtype_bytes(DType dtype);
// "float32", "bool", …: torch's own names without the prefix.
const char* dtype_name(DType dtype);

enum class StorageKind : uint8_t { ephemeral = 0, input = 1, persistent = 2 };

struct Storage {
  StorageKind kind = StorageKind::ephemeral;
  uint32_t index = 0;  // input: position in Graph::inputs; persistent: slot of the image; else 0
  uint64_t bytes = 0;
  friend bool operator==(const Storage&, const Storage&) = default;
};

using laneway::ValueKind;

// For a tensor all fields; for a number (a Python scalar such as a learning rate) only the kind.
struct Value {
  ValueKind kind = ValueKind::tensor;
  DType dtype = DType::float32;
  uint32_t storage = 0;        // index into Graph::storages
  int64_t storage_offset = 0;  // elements
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // elements, as many as sizes
  friend bool operator==(const Value&, const Value&) = default;
};

using ValueIndex = uint32_t;
inline constexpr ValueIndex kNoValue =
    UINT32_MAX;  // a result that is not used or that the operator does not give

enum class MemoryFormat : uint8_t {
  contiguous = 0,
  preserve = 1,
  channels_last = 2,
  channels_last_3d = 3
};

struct Argument;
struct NoneArgument {
  friend bool operator==(const NoneArgument&, const NoneArgument&) = default;
};
struct ValueArgument {
  ValueIndex value = kNoValue;
  friend bool operator==(const ValueArgument&, const ValueArgument&) = default;
};
struct DTypeArgument {
  DType dtype = DType::float32;
  friend bool operator==(const DTypeArgument&, const DTypeArgument&) = default;
};
struct MemoryFormatArgument {
  MemoryFormat format = MemoryFormat::contiguous;
  friend bool operator==(const MemoryFormatArgument&, const MemoryFormatArgument&) = default;
};
struct LayoutArgument {  // strided is the only layout
  friend bool operator==(const LayoutArgument&, const LayoutArgument&) = default;
};
struct DeviceArgument {  // "the device of the lane": graphs are captured on CPU and retargeted
  friend bool operator==(const DeviceArgument&, const DeviceArgument&) = default;
};
struct GeneratorArgument {  // "the job's own generator"
  friend bool operator==(const GeneratorArgument&, const GeneratorArgument&) = default;
};
struct ListArgument {
  std::vector<Argument> elements;
  friend bool operator==(const ListArgument&, const ListArgument&);
};

struct Argument {
  // The order is the tag of the binary form; never reorder.
  std::variant<NoneArgument, ValueArgument, int64_t, double, bool, std::string, DTypeArgument,
               MemoryFormatArgument, LayoutArgument, DeviceArgument, GeneratorArgument,
               ListArgument, std::complex<double>>
      content;
  friend bool operator==(const Argument&, const Argument&) = default;
};
inline bool operator==(const ListArgument& a, const ListArgument& b) {
  return a.elements == b.elements;
}

struct NamedArgument {
  std::string name;  // empty: positional, in schema order; positional ones come first
  Argument argument;
  friend bool operator==(const NamedArgument&, const NamedArgument&) = default;
};

// One return of the operator's schema. A plain tensor or number has one entry in `values`; a
// Tensor[] return has as many as it has elements.
struct NodeResult {
  bool is_list = false;
  std::vector<ValueIndex>
      values;  // kNoValue where the result is not used or the operator gives none
  friend bool operator==(const NodeResult&, const NodeResult&) = default;
};

struct Node {
  std::string op;  // "aten::add.Tensor": namespace, name, overload (none after the dot: no dot).
                   // Scalar arithmetic: "scalar::add", sub, mul, div, pow, min, max, neg, sqrt over
                   // numbers
  std::vector<NamedArgument> arguments;
  std::vector<NodeResult> results;
  std::vector<ValueIndex>
      writes;          // the values among the arguments with bytes that the node changes
  std::string source;  // the user's line, "train.py:42 in forward"; may be empty
  friend bool operator==(const Node&, const Node&) = default;
};

enum class GraphKind : uint8_t { train = 0, evaluate = 1, inference = 2 };

// How products of float32 are computed. Numbered as in the binary form; never renumber.
enum class Float32Precision : uint8_t { full = 0, tf32 = 1, bf16 = 2 };

// A library and a kind of operator for which torch has a precision of its own; the places in
// Float32Precisions.
enum class Float32Use : uint8_t {
  cuda_matmul,
  cuda_conv,
  cuda_rnn,
  mkldnn_matmul,
  mkldnn_conv,
  mkldnn_rnn
};
inline constexpr size_t kFloat32Uses = 6;
using Float32Precisions = std::array<Float32Precision, kFloat32Uses>;

// What torch starts with.
inline constexpr Float32Precisions kTorchFloat32Precisions = {
    Float32Precision::full, Float32Precision::tf32, Float32Precision::tf32,
    Float32Precision::full, Float32Precision::full, Float32Precision::full};

// Torch's process-wide state at capture; the lane sets it before an iteration. `threads` and
// `flush_denormal` belong to a thread; jobs with contexts that differ in any other field never run
// at the same time.
struct NumericContext {
  int32_t threads = 1;
  bool mkldnn = true;
  bool deterministic = false;
  bool deterministic_warn_only = false;
  bool flush_denormal = false;
  Float32Precisions float32 = kTorchFloat32Precisions;
  DType default_dtype = DType::float32;
  friend bool operator==(const NumericContext&, const NumericContext&) = default;
};

struct Graph {
  std::string name;
  GraphKind kind = GraphKind::inference;
  NumericContext context;
  std::vector<Storage> storages;
  std::vector<Value> values;
  std::vector<ValueIndex> inputs;   // tensors (each with an input storage of its own) and numbers
  std::vector<ValueIndex> outputs;  // tensors and numbers handed back to the client
  std::vector<Node> nodes;
  uint32_t first_write = 0;  // index of the first node that writes a persistent storage;
                             // nodes.size() when none does
  friend bool operator==(const Graph&, const Graph&) = default;
};

// The slots of a job's image, in which a graph's persistent values lie.
using laneway::ImageSlot;
using laneway::SlotKind;

}  // namespace laneway::lanes
