#include "service/worker/run/lane_executor.h"

#include <optional>
#include <utility>

#include "adaptor/scope/core_shortage.h"
#include "adaptor/scope/thread_team.h"
#include "base/clock.h"

namespace laneway::service {
namespace {

// Only where the CPU can write it.
std::optional<unsigned char> poison(adaptor::Backend& backend) {
  const bool addressable = backend.device().capabilities().pool_is_addressable;
  return addressable ? memory::LaneArena::poison_asked_for() : std::nullopt;
}

}  // namespace

LaneExecutor::LaneExecutor(adaptor::Backend& backend, const LaneTeams& teams, LaneId id,
                           Result<std::unique_ptr<adaptor::DeviceLane>> device)
    : backend_(backend),
      teams_(teams),
      id_(id),
      device_(std::move(device)),
      arena_(backend_.alignment(), poison(backend_)) {}

void LaneExecutor::bind(std::byte* base, Bytes size) {
  base_ = base;
  size_ = size;
  arena_.bind(base, size);
  user_.reset();
}

void LaneExecutor::next_user(uint32_t user, bool many) {
  foreign_ = many && user_ != user;
  user_ = user;
}

IterationResult LaneExecutor::run(WorkerGraph& graph, std::span<const lanes::InputView> inputs,
                                  std::span<const lanes::OutputView> outputs, CommitEntry* commit,
                                  ArrivingImage* arriving, Interruption* interruption) {
  if (!device_) {
    IterationResult result;
    result.end = IterationEnd::failed_for_good;
    result.error = device_.error();
    return result;
  }
  const bool held = interruption != nullptr && interruption->expected;
  const bool replay = replay_ && !held;
  if (replay && arriving != nullptr && arriving->recorded != nullptr) {
    graph.torch->allow_existing_recordings();
  } else {
    // A recording would wait for the whole image before its first node.
    graph.torch->allow_replay(replay && arriving == nullptr);
  }
  const uint32_t threads = graph.torch->threads();
  if (graph.gathers_team()) adaptor::gather_thread_team(SteadyClock().now(), threads);
  IterationResult result = run_iteration(graph, *device_.value(), arena_, inputs, outputs, commit,
                                         arriving, interruption);
  if (graph.uses_team()) {
    const TimePoint now = SteadyClock().now();
    adaptor::thread_team_used(now);
    adaptor::watch_cores(now, threads, teams_.others_compute(id_));
  }
  return result;
}

Status LaneExecutor::clear_foreign() {
  if (!std::exchange(foreign_, false)) return {};
  return backend_.pool_access().fill(base_, std::byte{0}, size_);
}

bool LaneExecutor::drain_unless_recording() {
  if (device_ && device_.value()->is_recording()) return false;
  drain();
  return true;
}

void LaneExecutor::drain() {
  if (device_) (void)device_.value()->drain();  // a device that failed has nothing under way
}

}  // namespace laneway::service
