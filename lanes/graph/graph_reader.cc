#include "lanes/graph/graph_reader.h"

#include "base/limits.h"
#include "lanes/graph/graph_codec.h"
#include "lanes/graph/limits.h"

namespace laneway::lanes {
namespace {

// The least that one of each takes in the binary form: what a count is checked against.
constexpr uint64_t kTextBytes = 4;
constexpr uint64_t kStorageBytes = 13;
constexpr uint64_t kValueBytes = 1;
constexpr uint64_t kIndexBytes = 4;
constexpr uint64_t kNodeBytes = 20;
constexpr uint64_t kNamedArgumentBytes = 5;
constexpr uint64_t kArgumentBytes = 1;
constexpr uint64_t kResultBytes = 5;
constexpr uint64_t kDimensionBytes = 16;

constexpr uint8_t kGraphKinds = 3;
constexpr uint8_t kStorageKinds = 3;
constexpr uint8_t kValueKinds = 4;
constexpr uint8_t kFloat32PrecisionKinds = 3;
constexpr uint8_t kMemoryFormats = 4;
constexpr uint8_t kArgumentKinds = std::variant_size_v<decltype(Argument::content)>;

// Names of the fields of argument tags, for messages.
enum Tag : uint8_t {
  kNone,
  kValue,
  kInteger,
  kReal,
  kBoolean,
  kText,
  kDType,
  kMemoryFormat,
  kLayout,
  kDevice,
  kGenerator,
  kList,
  kComplex
};
static_assert(kComplex + 1 == kArgumentKinds);

}  // namespace

Result<Graph> GraphReader::read() {
  Graph graph;
  header(graph);
  texts();
  const uint32_t storages = in_.count("storage count", limits::kMaxGraphValues, kStorageBytes);
  for (uint32_t i = 0; i < storages && !in_.failed(); ++i) graph.storages.push_back(storage());
  const uint32_t values = in_.count("value count", limits::kMaxGraphValues, kValueBytes);
  for (uint32_t i = 0; i < values && !in_.failed(); ++i) graph.values.push_back(value());
  graph.inputs = indices("inputs", limits::kMaxGraphInputs);
  graph.outputs = indices("outputs", limits::kMaxGraphOutputs);
  const uint32_t nodes = in_.count("node count", limits::kMaxGraphNodes, kNodeBytes);
  for (uint32_t i = 0; i < nodes && !in_.failed(); ++i) graph.nodes.push_back(node());
  graph.first_write = in_.u32("first write");
  if (in_.left() != 0) {
    in_.fail("end", in_.offset(), std::to_string(in_.left()) + " bytes follow the graph");
  }
  if (in_.failed()) return in_.error();
  return graph;
}

Result<Graph> GraphReader::read_head() {
  Graph graph;
  header(graph);
  if (in_.failed()) return in_.error();
  return graph;
}

void GraphReader::header(Graph& graph) {
  for (const char letter : {'L', 'W', 'G', 'R'}) {
    const size_t at = in_.offset();
    if (in_.u8("magic") != static_cast<uint8_t>(letter)) {
      in_.fail("magic", at, "a graph starts with the letters LWGR");
    }
  }
  const size_t at = in_.offset();
  const uint32_t version = in_.u32("version");
  if (version != kGraphFormatVersion) {
    in_.fail("version", at,
             "version " + std::to_string(version) + " is unknown, this build reads version " +
                 std::to_string(kGraphFormatVersion));
  }
  graph.name = in_.text("graph name", limits::kMaxStringBytes);
  graph.kind = static_cast<GraphKind>(in_.enumerator("graph kind", kGraphKinds));
  graph.context.threads = in_.i32("threads");
  graph.context.mkldnn = in_.boolean("mkldnn");
  graph.context.deterministic = in_.boolean("deterministic");
  graph.context.deterministic_warn_only = in_.boolean("deterministic warn only");
  graph.context.flush_denormal = in_.boolean("flush denormal");
  for (Float32Precision& precision : graph.context.float32) {
    precision =
        static_cast<Float32Precision>(in_.enumerator("float32 precision", kFloat32PrecisionKinds));
  }
  graph.context.default_dtype = static_cast<DType>(in_.enumerator("default dtype", kDTypeCount));
}

void GraphReader::texts() {
  const size_t at = in_.offset();
  const uint32_t count = in_.count("text count", limits::kMaxGraphTexts, kTextBytes);
  for (uint32_t i = 0; i < count && !in_.failed(); ++i) {
    texts_.push_back(in_.text("text", limits::kMaxStringBytes));
  }
  if (texts_.empty() || !texts_.front().empty()) {
    in_.fail("text table", at, "entry 0 must be there and be the empty text");
  }
}

Storage GraphReader::storage() {
  Storage storage;
  storage.kind = static_cast<StorageKind>(in_.enumerator("storage kind", kStorageKinds));
  storage.index = in_.u32("storage index");
  storage.bytes = in_.u64("storage bytes");
  return storage;
}

Value GraphReader::value() {
  Value value;
  value.kind = static_cast<ValueKind>(in_.enumerator("value kind", kValueKinds));
  if (value.kind != ValueKind::tensor) return value;
  value.dtype = static_cast<DType>(in_.enumerator("value dtype", kDTypeCount));
  value.storage = in_.u32("value storage");
  value.storage_offset = in_.i64("value storage offset");
  const uint32_t dimensions =
      in_.count("value dimensions", limits::kMaxTensorDimensions, kDimensionBytes);
  value.sizes.resize(dimensions);
  value.strides.resize(dimensions);
  for (int64_t& size : value.sizes) size = in_.i64("value size");
  for (int64_t& stride : value.strides) stride = in_.i64("value stride");
  return value;
}

Node GraphReader::node() {
  Node node;
  node.op = text("node operator");
  node.source = text("node source");
  const uint32_t arguments =
      in_.count("node arguments", limits::kMaxNodeArguments, kNamedArgumentBytes);
  for (uint32_t i = 0; i < arguments && !in_.failed(); ++i) {
    std::string name = text("argument name");
    node.arguments.push_back({std::move(name), argument(0)});
  }
  const uint32_t results = in_.count("node results", limits::kMaxNodeArguments, kResultBytes);
  for (uint32_t i = 0; i < results && !in_.failed(); ++i) {
    NodeResult& result = node.results.emplace_back();
    result.is_list = in_.boolean("result is a list");
    result.values = indices("result values", limits::kMaxListElements);
  }
  node.writes = indices("node writes", limits::kMaxListElements);
  return node;
}

Argument GraphReader::argument(uint32_t depth) {
  const size_t at = in_.offset();
  if (++arguments_ > limits::kMaxGraphArguments) {
    in_.fail("argument", at,
             "the graph has more than " + std::to_string(limits::kMaxGraphArguments) +
                 " arguments, list elements included");
    return {};
  }
  switch (in_.enumerator("argument tag", kArgumentKinds)) {
    case kNone: return {NoneArgument{}};
    case kValue: return {ValueArgument{in_.u32("argument value")}};
    case kInteger: return {in_.i64("integer argument")};
    case kReal: return {in_.f64("real argument")};
    case kBoolean: return {in_.boolean("boolean argument")};
    case kText: return {in_.text("text argument", limits::kMaxStringBytes)};
    case kDType:
      return {DTypeArgument{static_cast<DType>(in_.enumerator("dtype argument", kDTypeCount))}};
    case kMemoryFormat:
      return {MemoryFormatArgument{
          static_cast<MemoryFormat>(in_.enumerator("memory format argument", kMemoryFormats))}};
    case kLayout: return {LayoutArgument{}};
    case kDevice: return {DeviceArgument{}};
    case kGenerator: return {GeneratorArgument{}};
    case kComplex: {
      const double real = in_.f64("real part of a complex argument");
      return {std::complex<double>(real, in_.f64("imaginary part of a complex argument"))};
    }
    default: return {list(depth + 1)};
  }
}

ListArgument GraphReader::list(uint32_t depth) {
  ListArgument list;
  if (depth > limits::kMaxListDepth) {
    in_.fail("list argument", in_.offset(),
             "lists are nested deeper than " + std::to_string(limits::kMaxListDepth));
    return list;
  }
  const uint32_t count = in_.count("list argument", limits::kMaxListElements, kArgumentBytes);
  for (uint32_t i = 0; i < count && !in_.failed(); ++i) list.elements.push_back(argument(depth));
  return list;
}

std::string GraphReader::text(const char* field) {
  const size_t at = in_.offset();
  const uint32_t index = in_.u32(field);
  if (in_.failed()) return {};
  if (index >= texts_.size()) {
    in_.fail(field, at,
             "text " + std::to_string(index) + " is not in the table, which has " +
                 std::to_string(texts_.size()));
    return {};
  }
  text_bytes_ += texts_[index].size();
  if (text_bytes_ > limits::kMaxGraphTextBytes) {
    in_.fail(field, at,
             "names and sources together exceed " + std::to_string(limits::kMaxGraphTextBytes) +
                 " bytes");
    return {};
  }
  return texts_[index];
}

std::vector<ValueIndex> GraphReader::indices(const char* field, uint64_t limit) {
  std::vector<ValueIndex> result(in_.count(field, limit, kIndexBytes));
  for (ValueIndex& index : result) index = in_.u32(field);
  return result;
}

}  // namespace laneway::lanes
