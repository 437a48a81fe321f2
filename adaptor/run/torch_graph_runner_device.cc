// The runner's half for devices that are not the host: what goes in, what comes out, and which
// nodes stay on this thread.
#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "adaptor/checks/result_check.h"
#include "adaptor/host/cpu_lane_allocator.h"
#include "adaptor/run/torch_graph_runner.h"
#include "base/check.h"

namespace laneway::adaptor {
namespace {

// While it lives this thread's work is the CPU's own, outside of the lane's memory.
class HostWork {
 public:
  explicit HostWork(DeviceLane& lane) : lane_(lane) { lane_.suspend(); }
  ~HostWork() { lane_.resume(); }
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

 private:
  DeviceLane& lane_;
};

}  // namespace

c10::Device TorchGraphRunner::device_of(size_t node) const {
  return placement_.node_on_host(node) ? c10::Device(c10::DeviceType::CPU) : device_.device();
}

Status TorchGraphRunner::begin_on_device(std::span<const lanes::InputView> inputs) {
  DeviceLane* const lane = current_lane();
  LW_CHECK(lane != nullptr, "an iteration on a device runs in a LaneScope");
  epoch_ = mirror_->begin(this);
  if (!placement_.host_slots().empty()) {
    if (Status read = mirror_->refresh(*lane); !read) return read;
  }
  given_.assign(inputs.begin(), inputs.end());
  sent_inputs_ = false;
  part_done_ = false;
  way_ = replay_.begin(replay_key(inputs));
  return {};
}

lanes::NodeOutcome TorchGraphRunner::send_inputs() {
  if (sent_inputs_) return lanes::NodeOutcome::done;
  try {
    for (size_t i = 0; i < given_.size(); ++i) {
      const lanes::Value& value = graph_.values[graph_.inputs[i]];
      const uint64_t bytes = inputs_[i].bytes();
      if (value.kind != lanes::ValueKind::tensor || bytes == 0) continue;
      if (placement_.value_on_host(graph_, graph_.inputs[i])) {
        inputs_[i].rebind(const_cast<void*>(given_[i].data));
        continue;
      }
      sent_.push_back(at::empty({static_cast<int64_t>(bytes)},
                                at::TensorOptions().dtype(at::kByte).device(device_.device())));
      void* const place = sent_.back().mutable_data_ptr();
      inputs_[i].rebind(place);
      const Status sent =
          current_lane()->upload(place, given_[i].data, Bytes(static_cast<int64_t>(bytes)));
      if (!sent) {
        last_error_ = sent.error();
        return lanes::NodeOutcome::failed;
      }
    }
  } catch (const OutOfLane&) {
    return lanes::NodeOutcome::out_of_lane;
  } catch (const std::exception& error) {
    fail(0, std::string("its inputs cannot be copied: ") + error.what());
    return lanes::NodeOutcome::failed;
  }
  sent_inputs_ = true;
  if (way_ != ReplayControl::Way::plain) begin_replay();
  return lanes::NodeOutcome::done;
}

bool TorchGraphRunner::run_step_on_device(const Step& step, size_t index) {
  DeviceLane& lane = *current_lane();
  if (step.on_host) {
    const HostWork work(lane);
    run_step(step);
    return true;
  }
  run_step(step);
  if (const Status enqueued = lane.node_enqueued(); !enqueued) {
    fail(index, enqueued.error().message, enqueued.error().code);
    return false;
  }
  return true;
}

void TorchGraphRunner::abandon_on_device() {
  if (way_ == ReplayControl::Way::record) recording_.reset();
  replay_.given_up();
  way_ = ReplayControl::Way::plain;
  current_lane()->drop_downloads();
}

Status TorchGraphRunner::finish_on_device(std::span<const lanes::OutputView> outputs) {
  DeviceLane& lane = *current_lane();
  Status done;
  if (graph_.nodes.empty() && send_inputs() != lanes::NodeOutcome::done) done = last_error_;
  if (done && way_ == ReplayControl::Way::record && !part_done_) done = finish_recording();
  if (done) {
    const bool plain_end = way_ == ReplayControl::Way::plain || part_done_;
    done = plain_end ? fetch_outputs(outputs) : finish_replay(outputs);
  }
  if (done && placement_.writes_host_slots()) done = mirror_->flush(lane, flushed_);
  if (!done) {
    abandon_on_device();
    return done;
  }
  if (way_ == ReplayControl::Way::replay) ++replayed_;
  replay_.completed();
  way_ = ReplayControl::Way::plain;
  if (writes_mirror_on_device_) mirror_->written_on_device();
  looked_epoch_ = epoch_;
  enqueued_ = lane.enqueue();
  return {};
}

Status TorchGraphRunner::fetch_outputs(std::span<const lanes::OutputView> outputs) {
  Status done;
  for (size_t i = 0; i < graph_.outputs.size() && done; ++i) {
    done = fetch_output(graph_.outputs[i], outputs[i]);
  }
  return done;
}

bool TorchGraphRunner::is_here(lanes::ValueIndex output) const {
  const c10::IValue& result = values_[output];
  return !result.isTensor() || !result.toTensor().defined() ||
         placement_.value_on_host(graph_, output) || result.toTensor().device() != device_.device();
}

const at::Tensor& TorchGraphRunner::dense(const at::Tensor& output) {
  // A conjugate or negative view has the bytes of what it is a view of.
  const bool as_it_is = output.is_contiguous() && !output.is_conj() && !output.is_neg();
  outgoing_.push_back(
      as_it_is ? output : output.clone(at::MemoryFormat::Contiguous).resolve_conj().resolve_neg());
  return outgoing_.back();
}

Status TorchGraphRunner::fetch_output(lanes::ValueIndex value, const lanes::OutputView& output) {
  const c10::IValue& result = values_[value];
  if (is_here(value)) return copy_out(result, output);
  if (Status fits = check_output_room(result, output.bytes); !fits) return fits;
  try {
    return current_lane()->download(output.data, dense(result.toTensor()).const_data_ptr(),
                                    Bytes(static_cast<int64_t>(output.bytes)));
  } catch (const OutOfLane& error) {
    return Error{
        ErrorCode::out_of_memory,
        std::string("an output that is not dense has no room for its copy: ") + error.what()};
  } catch (const std::exception& error) {
    return Error{ErrorCode::failed, std::string("an output cannot be copied out: ") + error.what()};
  }
}

}  // namespace laneway::adaptor
