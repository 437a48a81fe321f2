#include "tests/remote_backend/remote_recording.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <atomic>
#include <stdexcept>
#include <utility>

namespace laneway::testing {
namespace {

constexpr c10::DispatchKey kMode = c10::DispatchKey::TESTING_ONLY_GenericMode;

std::atomic<int> refused{RemoteRecording::kNever};
std::atomic<int> allocating{RemoteRecording::kNever};
std::atomic<int> spoiling{RemoteRecording::kNever};
std::atomic<int> spoiling_times{0};
std::atomic<int> failing_launches{0};
std::atomic<int> started_count{0};
thread_local RemoteRecording* active = nullptr;

void write_down(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_again(kMode);
  active->call(op, *stack);
}

// A tensor over the same bytes that keeps no memory alive. Numbers in the place of tensors, and
// tensors in memory that is not the device's, are numbers to its kernels: they are kept as they
// are.
at::Tensor borrowed(const RemoteDevice& device, const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const bool number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (number || !device.holds(tensor.const_data_ptr())) {
    at::Tensor kept = tensor.clone();
    kept.unsafeGetTensorImpl()->set_wrapped_number(number);
    return kept;
  }
  return at::from_blob(const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                       tensor.options());
}

c10::IValue borrowed(const RemoteDevice& device, const c10::IValue& value) {
  if (value.isTensor()) return borrowed(device, value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector())
      list.push_back(borrowed(device, tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(borrowed(device, *tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

torch::jit::Stack borrowed(const RemoteDevice& device, const torch::jit::Stack& values) {
  torch::jit::Stack result;
  for (const c10::IValue& value : values) result.push_back(borrowed(device, value));
  return result;
}

template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
}

}  // namespace

void RemoteRecording::refuse(int what) { refused = what; }

void RemoteRecording::allocate_more(int call) { allocating = call; }

void RemoteRecording::spoil(int what, int times) {
  spoiling = what;
  spoiling_times = times;
}

void RemoteRecording::fail_launches(int times) { failing_launches = times; }

int RemoteRecording::started() { return started_count; }

RemoteRecording::RemoteRecording(RemoteLane& lane, adaptor::RandomState& random)
    : lane_(lane), random_(random) {
  {
    const adaptor::OutsideCpuLane outside;
    random_before_ = random_.get();
  }
  ++started_count;
  static const torch::Library library = [] {
    torch::Library made(torch::Library::IMPL, "_", kMode, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFromBoxedFunction<&write_down>());
    return made;
  }();
  active = this;
  recording_ = true;
  c10::impl::tls_set_dispatch_key_included(kMode, true);
  lane_.set_recording(true);
}

RemoteRecording::~RemoteRecording() { stop(); }

void RemoteRecording::stop() {
  if (!recording_) return;
  recording_ = false;
  active = nullptr;
  c10::impl::tls_set_dispatch_key_included(kMode, false);
  lane_.set_recording(false);
  const adaptor::OutsideCpuLane outside;
  for (auto last = written_.rbegin(); last != written_.rend(); ++last) {
    last->place.copy_(last->before);
  }
  written_.clear();
  const Status drawn_back = random_.set(random_before_);
  TORCH_CHECK(drawn_back.ok(), "a generator takes the state that it gave");
}

bool RemoteRecording::is_to_be_spoilt(int what) {
  if (spoiling != what || spoiling_times == 0) return false;
  --spoiling_times;
  spoilt_ = true;
  return true;
}

void RemoteRecording::call(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (refused == static_cast<int>(steps_.size())) throw std::runtime_error("cannot be recorded");
  if (is_to_be_spoilt(static_cast<int>(steps_.size()))) throw std::runtime_error("was spoilt");
  const size_t count = op.schema().arguments().size();
  Step step{op, {}, {}};
  {
    const adaptor::OutsideCpuLane outside;
    step.arguments = borrowed(lane_.remote(), torch::jit::Stack(stack.end() - count, stack.end()));
    save_written(op.schema(), step.arguments);
  }
  at::Tensor more;
  if (allocating == static_cast<int>(steps_.size())) more = at::empty({8}, at::kByte);
  op.callBoxed(&stack);
  const adaptor::OutsideCpuLane outside;
  step.results = borrowed(
      lane_.remote(), torch::jit::Stack(stack.end() - op.schema().returns().size(), stack.end()));
  steps_.push_back(std::move(step));
}

void RemoteRecording::save_written(const c10::FunctionSchema& schema,
                                   const torch::jit::Stack& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      written_.push_back({tensor, tensor.clone()});
    });
  }
}

Status RemoteRecording::end() {
  stop();
  if (is_to_be_spoilt(kAtEnd)) return Error{ErrorCode::failed, "the recording was spoilt"};
  if (refused != kAtEnd) return {};
  return Error{ErrorCode::failed, "the end of a recording is refused, as was asked for"};
}

void RemoteRecording::run(const Step& step) {
  torch::jit::Stack stack = step.arguments;
  step.op.callBoxed(&stack);
  const auto& returns = step.op.schema().returns();
  for (size_t i = 0; i < returns.size(); ++i) {
    // What is written in place, or a view, is there already.
    if (returns[i].alias_info() != nullptr) continue;
    std::vector<at::Tensor> places;
    for_each_tensor(step.results[i], [&](const at::Tensor& place) { places.push_back(place); });
    size_t next = 0;
    for_each_tensor(stack[i], [&](const at::Tensor& made) { places[next++].copy_(made); });
  }
}

Status RemoteRecording::launch() {
  if (failing_launches > 0) {
    --failing_launches;
    return Error{ErrorCode::failed, "a launch fails, as was asked for"};
  }
  const adaptor::OutsideCpuLane outside;
  for (const Step& step : steps_) run(step);
  return {};
}

}  // namespace laneway::testing
