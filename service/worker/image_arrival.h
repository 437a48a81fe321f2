// ImageArrival: how much of a job's image, from its beginning on, is in the pool, while it comes
// back and its iterations run behind the copy. And ArrivingRunner, which lets each node of an
// iteration wait for the bytes that it needs: on the CPU until they are there, or, where the device
// copies by itself, until they are on their way; then the lane's work waits in its own order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "adaptor/device/device_graph.h"
#include "adaptor/device/device_lane.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "lanes/run/forwarding_runner.h"
#include "memory/device/device.h"

namespace laneway::service {

// One thread says what has come; any thread may wait.
class ImageArrival {
 public:
  // From now on nothing is there, until it is said.
  void begin() { arrived_.store(0, std::memory_order_release); }
  // So much is there, for what waits for `there` (null: for everybody).
  void advance(Bytes arrived, std::shared_ptr<memory::Event> there = nullptr) LW_EXCLUDES(mutex_);
  // Every byte is there and is the right one, and the journal says so; or it never will be.
  void finish(bool whole) LW_EXCLUDES(mutex_);
  // What those bytes are to be waited for by, and how many there are behind it; no event when they
  // are there. Requires: has(bytes).
  struct Coming {
    Bytes bytes;
    std::shared_ptr<memory::Event> there;
  };
  Coming coming(Bytes bytes) const LW_EXCLUDES(mutex_);

  bool is_whole() const { return arrived_.load(std::memory_order_acquire) == kWhole; }
  bool is_lost() const { return arrived_.load(std::memory_order_acquire) == kLost; }
  // What has come, or is on its way; meaningless when the image is whole or lost.
  Bytes arrived() const { return Bytes(arrived_.load(std::memory_order_acquire)); }
  bool has(Bytes bytes) const { return arrived_.load(std::memory_order_acquire) >= bytes.count(); }
  // Blocks until so many bytes are there, or the whole is: false when they never will be.
  bool wait(Bytes bytes) const { return wait_until(bytes.count()); }
  bool wait_whole() const { return wait_until(kWhole); }

 private:
  static constexpr int64_t kWhole = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kLost = -1;

  void set(int64_t arrived) {
    arrived_.store(arrived, std::memory_order_release);
    arrived_.notify_all();
  }
  bool wait_until(int64_t wanted) const {
    int64_t arrived = arrived_.load(std::memory_order_acquire);
    while (arrived >= 0 && arrived < wanted) {
      arrived_.wait(arrived, std::memory_order_acquire);
      arrived = arrived_.load(std::memory_order_acquire);
    }
    return arrived >= 0;
  }

  std::atomic<int64_t> arrived_{kWhole};
  mutable Mutex mutex_;
  std::vector<Coming> coming_ LW_GUARDED_BY(mutex_);  // ascending
};

// An iteration whose image is arriving.
struct ArrivingImage {
  const ImageArrival& arrival;
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
