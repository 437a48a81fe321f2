// LaneExecutor: where the iterations of a lane run: the device's lane, and the arena over the
// lane's region. Not thread-safe: it belongs to whoever has set the lane's `busy`. `bind` and
// `allow_replay` are called with the worker's mutex held and while nobody is busy, so that the
// mutex is enough to read base() and size().
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "adaptor/device/backend.h"
#include "adaptor/device/device_lane.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "memory/lane_arena.h"
#include "service/worker/common/lane_teams.h"
#include "service/worker/run/iteration.h"
#include "service/worker/run/worker_graph.h"

namespace laneway::service {

class LaneExecutor {
 public:
  // Backend and teams must outlive the executor. `device` may be an error: then every run fails for
  // good with it.
  LaneExecutor(adaptor::Backend& backend, const LaneTeams& teams, LaneId id,
               Result<std::unique_ptr<adaptor::DeviceLane>> device);

  // From here on iterations allocate in these bytes of the pool.
  void bind(std::byte* base, Bytes size);
  std::byte* base() const { return base_; }
  Bytes size() const { return size_; }
  bool has_device() const { return device_.ok(); }
  // Null when the device gave none.
  adaptor::DeviceLane* device() const { return device_ ? device_.value().get() : nullptr; }
  int64_t alignment() const { return arena_.alignment(); }
  // Whether iterations may be replayed.
  void allow_replay(bool replay) { replay_ = replay; }

  // One iteration; `commit`, `arriving` and `interruption` as in run_iteration.
  IterationResult run(WorkerGraph& graph, std::span<const lanes::InputView> inputs,
                      std::span<const lanes::OutputView> outputs, CommitEntry* commit = nullptr,
                      ArrivingImage* arriving = nullptr, Interruption* interruption = nullptr);
  // A job of this user is next; what others left in the region is none of its business, if there
  // are others.
  void next_user(uint32_t user, bool many);
  // Writes zeros over what another user left in the region.
  Status clear_foreign();
  // Waits until nothing of the lane is under way on the device.
  void drain();
  // The same; false: the lane's stream records what is enqueued, and cannot be waited for.
  bool drain_unless_recording();

 private:
  adaptor::Backend& backend_;
  const LaneTeams& teams_;
  const LaneId id_;
  const Result<std::unique_ptr<adaptor::DeviceLane>> device_;
  memory::LaneArena arena_;
  std::byte* base_ = nullptr;
  Bytes size_;
  bool replay_ = false;
  std::optional<uint32_t> user_;  // whose bytes are in the region; none: anybody's
  bool foreign_ = false;          // they are another user's
};

}  // namespace laneway::service
