#include "tests/support/graph_builder.h"

#include <utility>

#include "lanes/graph/graph_facts.h"

namespace laneway::testing {

using lanes::Argument;
using lanes::DType;
using lanes::Graph;
using lanes::NamedArgument;
using lanes::Node;
using lanes::StorageKind;
using lanes::ValueIndex;
using lanes::ValueKind;

namespace {

int64_t element_count(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, lanes::GraphKind kind) {
  graph_.name = std::move(name);
  graph_.kind = kind;
}

uint32_t GraphBuilder::add_storage(StorageKind kind, uint32_t index,
                                   const std::vector<int64_t>& sizes, DType dtype) {
  const auto bytes = static_cast<uint64_t>(element_count(sizes) * lanes::dtype_bytes(dtype));
  graph_.storages.push_back({kind, index, bytes});
  return static_cast<uint32_t>(graph_.storages.size() - 1);
}

ValueIndex GraphBuilder::add_tensor(uint32_t storage, std::vector<int64_t> sizes, DType dtype) {
  lanes::Value value;
  value.dtype = dtype;
  value.storage = storage;
  value.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    value.strides[i] = stride;
    stride *= sizes[i];
  }
  value.sizes = std::move(sizes);
  graph_.values.push_back(std::move(value));
  return static_cast<ValueIndex>(graph_.values.size() - 1);
}

Node& GraphBuilder::add_node(const std::string& op, std::vector<NamedArgument> arguments) {
  Node& node = graph_.nodes.emplace_back();
  node.op = op;
  node.arguments = std::move(arguments);
  node.source = "train.py:" + std::to_string(graph_.nodes.size()) + " in step";
  return node;
}

ValueIndex GraphBuilder::input(std::vector<int64_t> sizes, DType dtype) {
  const auto position = static_cast<uint32_t>(graph_.inputs.size());
  const uint32_t storage = add_storage(StorageKind::input, position, sizes, dtype);
  graph_.inputs.push_back(add_tensor(storage, std::move(sizes), dtype));
  return graph_.inputs.back();
}

ValueIndex GraphBuilder::number_input(ValueKind kind) {
  graph_.values.emplace_back().kind = kind;
  graph_.inputs.push_back(static_cast<ValueIndex>(graph_.values.size() - 1));
  return graph_.inputs.back();
}

ValueIndex GraphBuilder::slot(uint32_t index, std::vector<int64_t> sizes, DType dtype) {
  return add_tensor(add_storage(StorageKind::persistent, index, sizes, dtype), sizes, dtype);
}

ValueIndex GraphBuilder::compute(const std::string& op, std::vector<NamedArgument> arguments,
                                 std::vector<int64_t> sizes, DType dtype) {
  const uint32_t storage = add_storage(StorageKind::ephemeral, 0, sizes, dtype);
  const ValueIndex value = add_tensor(storage, std::move(sizes), dtype);
  add_node(op, std::move(arguments)).results = {{false, {value}}};
  return value;
}

ValueIndex GraphBuilder::view(ValueIndex base, std::vector<int64_t> sizes) {
  std::vector<Argument> shape;
  for (const int64_t size : sizes) shape.push_back({size});
  const DType dtype = graph_.values[base].dtype;
  const ValueIndex value = add_tensor(graph_.values[base].storage, std::move(sizes), dtype);
  add_node("aten::view", {arg(base), arg_list(std::move(shape))}).results = {{false, {value}}};
  return value;
}

ValueIndex GraphBuilder::number(const std::string& op, std::vector<NamedArgument> arguments,
                                ValueKind kind) {
  graph_.values.emplace_back().kind = kind;
  const auto value = static_cast<ValueIndex>(graph_.values.size() - 1);
  add_node(op, std::move(arguments)).results = {{false, {value}}};
  return value;
}

void GraphBuilder::write(const std::string& op, ValueIndex target,
                         std::vector<NamedArgument> more) {
  more.insert(more.begin(), arg(target));
  Node& node = add_node(op, std::move(more));
  node.results = {{false, {lanes::kNoValue}}};
  node.writes = {target};
}

Graph GraphBuilder::finish() {
  graph_.first_write = lanes::first_persistent_write(graph_);
  return std::move(graph_);
}

NamedArgument arg(ValueIndex value) { return {"", {lanes::ValueArgument{value}}}; }
NamedArgument arg_int(int64_t value) { return {"", {value}}; }
NamedArgument arg_real(double value) { return {"", {value}}; }
NamedArgument arg_list(std::vector<Argument> elements) {
  return {"", {lanes::ListArgument{std::move(elements)}}};
}
NamedArgument keyword(std::string name, Argument argument) {
  return {std::move(name), std::move(argument)};
}

Graph training_graph() {
  GraphBuilder b("training");
  const ValueIndex x = b.input({4, 8});
  const ValueIndex y = b.input({4, 3});
  const ValueIndex rate = b.number_input();
  const ValueIndex weight = b.slot(1, {3, 8});
  const ValueIndex bias = b.slot(0, {3});
  const ValueIndex flipped = b.compute("aten::t_copy", {arg(weight)}, {8, 3});
  const ValueIndex guess = b.compute("aten::addmm", {arg(bias), arg(x), arg(flipped)}, {4, 3});
  const ValueIndex error = b.compute("aten::sub.Tensor", {arg(guess), arg(y)}, {4, 3});
  const ValueIndex flat = b.view(error, {12});
  const ValueIndex loss = b.compute("aten::mean", {arg(flat)}, {});
  const ValueIndex turned = b.compute("aten::t_copy", {arg(error)}, {3, 4});
  const ValueIndex gradient = b.compute("aten::mm", {arg(turned), arg(x)}, {3, 8});
  const ValueIndex bias_gradient =
      b.compute("aten::sum.dim_IntList", {arg(error), arg_list({{int64_t{0}}})}, {3});
  const ValueIndex step = b.number("scalar::mul", {arg(rate), arg_real(-2.0)}, ValueKind::real);
  b.write("aten::_foreach_add_.List", weight,
          {arg_list({{lanes::ValueArgument{gradient}}}),
           keyword("alpha", {lanes::ValueArgument{step}})});
  b.write("aten::add_.Tensor", bias, {arg(bias_gradient), keyword("alpha", {-0.1})});
  b.output(loss);
  b.output(step);
  return b.finish();
}

Graph inference_graph() {
  GraphBuilder b("inference", lanes::GraphKind::inference);
  const ValueIndex x = b.input({2, 8});
  const ValueIndex weight = b.slot(1, {3, 8});
  const ValueIndex bias = b.slot(0, {3});
  const ValueIndex turned = b.compute("aten::t_copy", {arg(weight)}, {8, 3});
  const ValueIndex product = b.compute("aten::mm", {arg(x), arg(turned)}, {2, 3});
  const ValueIndex sum = b.compute("aten::add.Tensor", {arg(product), arg(bias)}, {2, 3});
  b.output(b.view(sum, {6}));
  return b.finish();
}

Graph every_kind_graph() {
  GraphBuilder b("every kind", lanes::GraphKind::evaluate);
  b.graph().context = {.threads = 2,
                       .mkldnn = false,
                       .deterministic = true,
                       .deterministic_warn_only = true,
                       .flush_denormal = true,
                       .float32 = {lanes::Float32Precision::tf32, lanes::Float32Precision::full,
                                   lanes::Float32Precision::full, lanes::Float32Precision::bf16,
                                   lanes::Float32Precision::tf32, lanes::Float32Precision::bf16},
                       .default_dtype = DType::float64};
  const ValueIndex x = b.input({2, 3}, DType::int64);
  const ValueIndex flag = b.number_input(ValueKind::boolean);
  const ValueIndex state = b.slot(2, {16}, DType::complex128);
  const ValueIndex all = b.compute(
      "aten::everything.out_of_this",
      {arg(x), arg_int(-7), arg_real(0.5), keyword("flag", {true}),
       keyword("text", {std::string("mean")}),
       keyword("dtype", {lanes::DTypeArgument{DType::bfloat16}}),
       keyword("memory_format", {lanes::MemoryFormatArgument{lanes::MemoryFormat::channels_last}}),
       keyword("layout", {lanes::LayoutArgument{}}), keyword("device", {lanes::DeviceArgument{}}),
       keyword("generator", {lanes::GeneratorArgument{}}), keyword("nothing", {}),
       keyword("turn", {std::complex<double>(0.5, -1.0)}),
       keyword("indices",
               {lanes::ListArgument{
                   {{lanes::NoneArgument{}},
                    {lanes::ListArgument{{{lanes::ValueArgument{x}}, {lanes::NoneArgument{}}}}}}}}),
       keyword("on", {lanes::ValueArgument{flag}})},
      {2, 4}, DType::float16);
  const ValueIndex left = b.view(all, {2, 2});
  lanes::Value second = b.graph().values[left];
  b.graph().values[left].strides = {4, 1};
  second.strides = {4, 1};
  second.storage_offset = 2;
  b.graph().values.push_back(second);
  b.last().op = "aten::split.Tensor";
  b.last().results = {{true, {left, left + 1, lanes::kNoValue}}};
  b.write("aten::copy_", state, {arg(left + 1)});
  b.output(left);
  b.output(flag);
  return b.finish();
}

std::vector<lanes::ImageSlot> builder_image() {
  return {{"model/bias", lanes::SlotKind::parameter, 12},
          {"model/weight", lanes::SlotKind::parameter, 96},
          {"model/state", lanes::SlotKind::buffer, 256},
          {"model/unused", lanes::SlotKind::buffer, 4}};
}

}  // namespace laneway::testing
