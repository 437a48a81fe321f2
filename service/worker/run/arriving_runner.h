// ArrivingRunner: lets each node of an iteration wait for the bytes of its image that it needs,
// while the image comes back (pipeline/image_arrival.h): on the CPU until they are there, or, where
// the device copies by itself, until they are on their way; then the lane's work waits in its own
// order.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "adaptor/device/device_graph.h"
#include "adaptor/device/device_lane.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/time.h"
#include "lanes/run/forwarding_runner.h"
#include "pipeline/image_arrival.h"

namespace laneway::service {

// An iteration whose image is arriving.
struct ArrivingImage {
  const pipeline::ImageArrival& arrival;
  std::span<const Bytes> needs;  // pipeline/arrival.h, of the iteration's graph
  // Called when the image is whole, before the iteration writes to it.
  std::function<void()> before_writes;
  // Called around each time that it waits: whoever looks for hangs must not take it for one.
  std::function<void(bool waits)> on_wait;
  const Clock& clock;
  Bytes kept = Bytes();  // of the image, when it began to come
  // Not null: a recording of this graph, if there is one, is launched behind the whole image,
  // because that is sooner than its nodes behind their bytes.
  const adaptor::DeviceGraph* recorded = nullptr;
  Duration waited = Duration();  // in all
  // For each node, and for the answer, what was computed before it.
  std::vector<Duration> starts = {};
};

// A GraphRunner around an iteration's: each node waits for its bytes; outputs, and the commit phase
// (may_write), for the whole. An image that does not come fails the node.
class ArrivingRunner final : public lanes::ForwardingRunner {
 public:
  // All of them must outlive it. `lane`: in which the runner's nodes run.
  ArrivingRunner(lanes::GraphRunner& runner, adaptor::DeviceLane& lane, ArrivingImage& image)
      : ForwardingRunner(runner), lane_(lane), image_(image) {}

  // False: the image does not come.
  bool may_write();

  Status begin(std::span<const lanes::InputView> inputs) override;
  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;
  const Error& last_error() const override {
    if (image_.arrival.is_lost()) return error_;
    return lane_error_ ? ForwardingRunner::last_error() : lane_error_.error();
  }

 private:
  // Something that waits for the image begins, when it is there.
  void note_start();
  // `wait` blocks.
  template <class Wait>
  bool wait(const Wait& wait);
  // The lane's work from here on has these bytes.
  Status order_behind(Bytes need);

  adaptor::DeviceLane& lane_;
  ArrivingImage& image_;
  bool needs_all_ = false;  // the first node does
  Bytes ordered_;           // the lane's work is behind the arrival of so many
  Status lane_error_;
  TimePoint began_;
  const Error error_{ErrorCode::cancelled, "the job ended while its image was on its way back"};
};

}  // namespace laneway::service
