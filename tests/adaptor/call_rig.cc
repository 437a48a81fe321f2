#include "tests/adaptor/call_rig.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "adaptor/device/device_lane.h"
#include "adaptor/host/host_random_state.h"
#include "adaptor/host/host_torch_device.h"
#include "adaptor/operators/operator_list.h"
#include "adaptor/operators/random_operators.h"
#include "adaptor/operators/torch_tensors.h"
#include "adaptor/run/torch_graph_runner.h"
#include "adaptor/scope/lane_scope.h"
#include "base/limits.h"
#include "base/random.h"
#include "lanes/graph/graph_check.h"
#include "lanes/graph/graph_facts.h"
#include "memory/host_pool_access.h"
#include "memory/lane_arena.h"
#include "pipeline/image.h"
#include "tests/adaptor/guarded_memory.h"

namespace laneway::testing {
namespace {

using lanes::Argument;
using lanes::StorageKind;
using lanes::ValueIndex;

// Slots of the image: an untouchable page, one operand, a page, the next, …, a page.
constexpr uint32_t kSlotStep = 2;

// Leaves the thread's allocations to the guarded ones; calls run when they are called.
class BareLane final : public adaptor::DeviceLane {
 public:
  void enter(memory::LaneArena& /*arena*/, const lanes::NumericContext& /*context*/) override {}
  void leave() override {}
  void suspend() override {}
  void resume(const lanes::NumericContext& /*context*/) override {}
  uint64_t address_hash() const override { return 0; }
  Status upload(void* to, const void* from, Bytes bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes.count()));
    return {};
  }
  Status download(void* to, const void* from, Bytes bytes) override {
    return upload(to, from, bytes);
  }
  Status node_enqueued() override { return {}; }
  Status recording_launched() override { return {}; }
  std::unique_ptr<lanes::EnqueuedIteration> enqueue() override { return nullptr; }
  void drop_downloads() override {}
  Status drain() override { return {}; }
};

uint64_t whole_pages(uint64_t bytes) {
  const uint64_t page = page_bytes();
  return std::max<uint64_t>((bytes + page - 1) / page, 1) * page;
}

struct BuiltCall {
  lanes::Graph graph;
  std::vector<size_t> inputs;  // the operand that each input of the graph holds
  std::vector<size_t> slots;   // the same for the operands in the image
};

// Builds the graph of one call.
class CallGraph {
 public:
  explicit CallGraph(const OperandCall& call) : call_(call) {
    adaptor::register_random_operators();
    const auto handle = c10::Dispatcher::singleton().findSchema(adaptor::operator_name(call.op));
    if (handle) schema_ = &handle->schema();
  }

  BuiltCall build() {
    find_writes();
    for (size_t i = 0; i < call_.tensors.size(); ++i) add_operand(i);
    lanes::Node node;
    node.op = call_.op;
    node.source = "train.py:7 in step";
    for (const lanes::NamedArgument& given : call_.arguments) {
      node.arguments.push_back({given.name, with_values(given.argument)});
    }
    for (const size_t written : written_) node.writes.push_back(values_[written]);
    for (size_t i = 0; schema_ != nullptr && i < schema_->returns().size(); ++i) {
      const bool list = schema_->returns()[i].type()->kind() == c10::TypeKind::ListType;
      std::vector<ValueIndex> unused;
      if (!list) unused.push_back(lanes::kNoValue);
      node.results.push_back({list, std::move(unused)});
    }
    graph_.nodes.push_back(std::move(node));
    graph_.name = "call";
    graph_.first_write = lanes::first_persistent_write(graph_);
    return {std::move(graph_), std::move(of_input_), std::move(of_slot_)};
  }

 private:
  void find_writes() {
    if (schema_ == nullptr) return;
    for (size_t i = 0; i < call_.arguments.size(); ++i) {
      const lanes::NamedArgument& given = call_.arguments[i];
      const auto position = given.name.empty() ? std::optional<int>(static_cast<int>(i))
                                               : schema_->argumentIndexWithName(given.name);
      if (!position || static_cast<size_t>(*position) >= schema_->arguments().size()) continue;
      const auto* alias = schema_->arguments()[static_cast<size_t>(*position)].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      lanes::for_each_value(given.argument, [&](ValueIndex value) { written_.insert(value); });
    }
  }

  uint32_t add_storage(StorageKind kind, uint32_t index, uint64_t bytes) {
    graph_.storages.push_back({kind, index, bytes});
    return static_cast<uint32_t>(graph_.storages.size() - 1);
  }

  ValueIndex add_value(const OperandTensor& t, uint32_t storage) {
    lanes::Value value;
    value.dtype = t.dtype;
    value.storage = storage;
    value.storage_offset = t.offset;
    value.sizes = t.sizes;
    value.strides = t.strides;
    graph_.values.push_back(std::move(value));
    return static_cast<ValueIndex>(graph_.values.size() - 1);
  }

  ValueIndex add_input(const OperandTensor& t, size_t operand) {
    of_input_.push_back(operand);
    const auto bytes = static_cast<uint64_t>(t.extent() * lanes::dtype_bytes(t.dtype));
    const auto position = static_cast<uint32_t>(graph_.inputs.size());
    graph_.inputs.push_back(add_value(t, add_storage(StorageKind::input, position, bytes)));
    return graph_.inputs.back();
  }

  ValueIndex add_slot(OperandTensor t, size_t operand) {
    of_slot_.push_back(operand);
    const int64_t element = lanes::dtype_bytes(t.dtype);
    const auto needed = static_cast<uint64_t>(t.extent() * element);
    const uint64_t bytes = whole_pages(needed);
    t.offset += static_cast<int64_t>((bytes - needed) / static_cast<uint64_t>(element));
    const uint32_t storage = add_storage(StorageKind::persistent, next_slot_, bytes);
    next_slot_ += kSlotStep;
    return add_value(t, storage);
  }

  void add_node(std::string op, std::vector<lanes::NamedArgument> arguments, ValueIndex result) {
    lanes::Node node;
    node.op = std::move(op);
    node.arguments = std::move(arguments);
    node.results = {{false, {result}}};
    graph_.nodes.push_back(std::move(node));
  }

  // The elements of its storage, copied by a node.
  ValueIndex add_copy(const OperandTensor& t, size_t operand) {
    OperandTensor flat = t;
    flat.sizes = {t.extent()};
    flat.strides = {1};
    flat.offset = 0;
    const ValueIndex input = add_input(flat, operand);
    // Room for what a disguised view claims.
    const int64_t most = std::max(t.extent(), t.elements() + t.offset);
    const auto bytes = static_cast<uint64_t>(most * lanes::dtype_bytes(t.dtype));
    const ValueIndex copy = add_value(flat, add_storage(StorageKind::ephemeral, 0, bytes));
    add_node("aten::clone", {{"", {lanes::ValueArgument{input}}}}, copy);
    return copy;
  }

  void add_operand(size_t index) {
    const OperandTensor& t = call_.tensors[index];
    if (t.route == Route::direct || t.extent() == 0) {
      values_.push_back(written_.count(index) > 0 ? add_slot(t, index) : add_input(t, index));
      return;
    }
    const ValueIndex copy = add_copy(t, index);
    OperandTensor declared = t;
    if (t.route == Route::disguised) declared.make_dense();
    const ValueIndex view = add_value(declared, graph_.values[copy].storage);
    const auto integers = [](const std::vector<int64_t>& numbers) {
      lanes::ListArgument list;
      for (const int64_t number : numbers) list.elements.push_back({number});
      return lanes::NamedArgument{"", {std::move(list)}};
    };
    add_node("aten::as_strided",
             {{"", {lanes::ValueArgument{copy}}},
              integers(t.sizes),
              integers(t.strides),
              {"", {t.offset}}},
             view);
    values_.push_back(view);
  }

  Argument with_values(const Argument& given) const {
    if (const auto* value = std::get_if<lanes::ValueArgument>(&given.content)) {
      return {lanes::ValueArgument{values_.at(value->value)}};
    }
    const auto* list = std::get_if<lanes::ListArgument>(&given.content);
    if (list == nullptr) return given;
    lanes::ListArgument copy;
    for (const Argument& element : list->elements) copy.elements.push_back(with_values(element));
    return {std::move(copy)};
  }

  const OperandCall& call_;
  const c10::FunctionSchema* schema_ = nullptr;
  std::set<size_t> written_;
  std::vector<ValueIndex> values_;  // by operand
  std::vector<size_t> of_input_, of_slot_;
  uint32_t next_slot_ = 1;
  lanes::Graph graph_;
};

// Fills the memory of one value with what its operand says.
void fill(std::byte* to, uint64_t bytes, const OperandTensor& t, Random& random) {
  const bool one_byte = t.dtype == lanes::DType::boolean;
  const auto element = static_cast<uint64_t>(lanes::dtype_bytes(t.dtype));
  const auto put = [&](uint64_t i, auto number) {
    std::memcpy(to + i * sizeof(number), &number, sizeof(number));
  };
  const uint64_t part = t.dtype == lanes::DType::complex64    ? 4
                        : t.dtype == lanes::DType::complex128 ? 8
                                                              : element;
  for (uint64_t i = 0; i < bytes / part; ++i) {
    const bool given = !t.contents.empty();
    const int64_t whole =
        given ? t.contents[static_cast<size_t>(i % t.contents.size())] : random.between(0, 3);
    const double real = given ? static_cast<double>(whole) : random.unit() * 2 - 0.5;
    switch (t.dtype) {
      case lanes::DType::boolean:
      case lanes::DType::uint8: put(i, static_cast<uint8_t>(one_byte ? whole & 1 : whole)); break;
      case lanes::DType::int8: put(i, static_cast<int8_t>(whole)); break;
      case lanes::DType::int16: put(i, static_cast<int16_t>(whole)); break;
      case lanes::DType::int32: put(i, static_cast<int32_t>(whole)); break;
      case lanes::DType::int64: put(i, whole); break;
      case lanes::DType::float16: put(i, static_cast<c10::Half>(static_cast<float>(real))); break;
      case lanes::DType::bfloat16:
        put(i, static_cast<c10::BFloat16>(static_cast<float>(real)));
        break;
      case lanes::DType::float32:
      case lanes::DType::complex64: put(i, static_cast<float>(real)); break;
      case lanes::DType::float64:
      case lanes::DType::complex128: put(i, real); break;
    }
  }
}

// The image that the graph's persistent storages fit: each between two untouchable pages.
std::vector<lanes::ImageSlot> guarded_slots(const lanes::Graph& graph) {
  const lanes::ImageSlot guard{"guard", lanes::SlotKind::constant, page_bytes()};
  std::vector<lanes::ImageSlot> slots{guard};
  for (const lanes::Storage& storage : graph.storages) {
    if (storage.kind != StorageKind::persistent) continue;
    slots.push_back({"operand", lanes::SlotKind::parameter, storage.bytes});
    slots.push_back(guard);
  }
  return slots;
}

// The graph declares no elements of a list that is a result: that is found behind the call.
bool ran(const std::string& message) {
  return message.find("the operator returned a list of") != std::string::npos;
}

}  // namespace

CallReport run_call(const OperandCall& call, uint64_t seed) {
  const BuiltCall built = CallGraph(call).build();
  const lanes::Graph& graph = built.graph;
  if (Status valid = lanes::check_graph(graph); !valid) {
    return {CallOutcome::malformed, valid.error().message};
  }
  const std::vector<lanes::ImageSlot> slots = guarded_slots(graph);
  std::vector<uint32_t> order(slots.size());
  std::iota(order.begin(), order.end(), 0U);
  const pipeline::ImageLayout layout(slots, order, static_cast<int64_t>(page_bytes()));
  adaptor::BorrowedStorage storage(static_cast<uint64_t>(layout.total().count()));
  adaptor::HostRandomState random_state;
  const adaptor::HostTorchDevice device;
  memory::HostPoolAccess access;
  adaptor::StateMirror mirror(layout, {}, access);
  auto loaded = adaptor::TorchGraphRunner::load(graph, adaptor::Placement::in_place(),
                                                {.device = device,
                                                 .layout = layout,
                                                 .image = storage,
                                                 .random = random_state,
                                                 .mirror = mirror});
  if (!loaded && ran(loaded.error().message)) return {CallOutcome::done, {}};
  if (!loaded) return {CallOutcome::refused, loaded.error().message};

  Random random(seed);
  const GuardedBlock image(storage.bytes());
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    const auto offset = static_cast<size_t>(layout.offset(slot).count());
    const size_t bytes = slots[slot].bytes;
    if (slot % kSlotStep == 0) {
      image.forbid(offset, bytes);
    } else {
      fill(image.data() + offset, bytes, call.tensors[built.slots[slot / kSlotStep]], random);
    }
  }
  storage.rebind(image.data());
  std::vector<GuardedBlock> inputs;
  std::vector<lanes::InputView> views;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const lanes::Value& value = graph.values[graph.inputs[i]];
    const uint64_t bytes = graph.storages[value.storage].bytes;
    inputs.emplace_back(bytes);
    fill(inputs.back().data(), bytes, call.tensors[built.inputs[i]], random);
    views.push_back({.data = inputs.back().data(), .bytes = bytes});
  }
  adaptor::TorchGraphRunner& runner = *loaded.value();
  BareLane lane;
  memory::LaneArena arena(limits::kHostAlignment);
  const adaptor::LaneScope scope(lane, arena, graph.context);
  if (Status begun = runner.begin(views); !begun) {
    return {CallOutcome::refused, begun.error().message};
  }
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    if (runner.run_node(node) == lanes::NodeOutcome::done) continue;
    CallReport report{CallOutcome::failed, runner.last_error().message};
    runner.abandon();
    return ran(report.message) ? CallReport{CallOutcome::done, {}} : report;
  }
  runner.abandon();
  return {CallOutcome::done, {}};
}

}  // namespace laneway::testing
