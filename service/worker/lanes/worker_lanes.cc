#include "service/worker/lanes/worker_lanes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace laneway::service {

WorkerLanes::~WorkerLanes() {
  const BookkeepingLock lock(context_.mutex);
  LW_CHECK(lanes_.empty() && warm_.empty(), "close_all comes before the worker's end");
}

void WorkerLanes::make(const Journal::Region& region,
                       Result<std::unique_ptr<adaptor::DeviceLane>> device) {
  auto& lane = lanes_[region.lane];
  LW_CHECK(lane == nullptr, "a lane is opened once");
  lane = std::make_unique<WorkerLane>(context_, host_, region.lane, std::move(device));
  bind(*lane, region);
}

void WorkerLanes::bind(WorkerLane& lane, const Journal::Region& region) {
  lane.set_region(region.region, context_.pool + region.offset.count(), region.size);
  last_region_ = std::max(last_region_, region.region);
}

void WorkerLanes::open(const lanes::OpenRegion& action) {
  const Journal::Region region{action.lane, action.region, action.offset, action.size};
  if (open_warm(region)) return;
  auto device = context_.backend.make_lane();
  if (!device) log_error("a lane cannot be had of the device: " + device.error().message);
  const BookkeepingLock lock(context_.mutex);
  if (closed_) return;
  make(region, std::move(device));
  if (context_.journal != nullptr) context_.journal->set_region(region);
}

bool WorkerLanes::open_warm(const Journal::Region& region) {
  const BookkeepingLock lock(context_.mutex);
  auto warm = warm_.extract(region.lane);
  if (closed_ || warm.empty()) return closed_;
  WorkerLane& lane = *lanes_.insert(std::move(warm)).position->second;
  bind(lane, region);
  if (context_.journal != nullptr) context_.journal->set_region(region);
  return true;
}

void WorkerLanes::resize(const lanes::ResizeRegion& action) {
  const BookkeepingLock lock(context_.mutex);
  if (closed_) return;
  WorkerLane* const lane = find(action.region);
  LW_CHECK(lane != nullptr, "a region that is resized is open");
  lane->set_region(action.region, context_.pool + action.offset.count(), action.size);
  if (context_.journal != nullptr) {
    context_.journal->set_region({lane->id(), action.region, action.offset, action.size});
  }
}

void WorkerLanes::close(const lanes::CloseRegion& action) {
  const BookkeepingLock lock(context_.mutex);
  WorkerLane* const lane = find(action.region);
  if (lane == nullptr) return;
  if (context_.journal != nullptr) context_.journal->close_region(lane->id());
  lane->close_region();
  auto closed = lanes_.extract(lane->id());
  if (lane->has_device()) {
    warm_.insert(std::move(closed));
    return;
  }
  lane->stop();
  retired_.push_back(std::move(closed.mapped()));
}

void WorkerLanes::grant(const lanes::Turn& turn, JobHandle job) {
  if (closed_) return;
  last_turn_ = std::max(last_turn_, turn.id);
  const auto lane = lanes_.find(turn.lane);
  LW_CHECK(lane != lanes_.end(), "a turn is granted in an open lane");
  lane->second->grant(turn, std::move(job));
}

bool WorkerLanes::recall(const lanes::RecallTurn& action, lanes::TurnEnded& ended) {
  const BookkeepingLock lock(context_.mutex);
  const auto lane = lanes_.find(action.lane);
  return lane != lanes_.end() && lane->second->recall(action, ended);
}

bool WorkerLanes::recover() {
  if (context_.journal == nullptr) return false;
  const Bytes capacity = context_.capacity;
  for (const Journal::Region& region : context_.journal->regions()) {
    last_region_ = std::max(last_region_, region.region);
    if (region.offset < Bytes() || region.size <= Bytes() || region.size > capacity ||
        region.offset > capacity - region.size) {
      log_error("the journal has a region outside of the pool: it is left out");
      context_.journal->close_region(region.lane);
      continue;
    }
    make(region, context_.backend.make_lane());
  }
  return !lanes_.empty();
}

void WorkerLanes::report(lanes::WorkerReport& report) const {
  for (const auto& [id, lane] : lanes_) {
    const Bytes offset(lane->base() - context_.pool);
    report.regions.push_back(
        {.region = lane->region(), .lane = id, .offset = offset, .size = lane->size()});
  }
  report.last_turn = last_turn_;
  report.last_region = last_region_;
}

bool WorkerLanes::another_is_busy(const WorkerLane& lane) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const auto& entry) LW_REQUIRES(kBookkeeping) {
                       return entry.second.get() != &lane && entry.second->is_busy();
                     });
}

void WorkerLanes::retire_soon() {
  for (const auto& [id, lane] : lanes_) lane->retire_soon();
}

void WorkerLanes::wake_all() {
  for (const auto& [id, lane] : lanes_) lane->work_arrived();
}

void WorkerLanes::close_all() {
  std::vector<std::unique_ptr<WorkerLane>> all;
  {
    const BookkeepingLock lock(context_.mutex);
    closed_ = true;
    all.swap(retired_);
    for (auto* const lanes : {&lanes_, &warm_}) {
      for (auto& [id, lane] : *lanes) {
        lane->stop();
        all.push_back(std::move(lane));
      }
      lanes->clear();
    }
  }
  for (auto& lane : all) lane->join();
}

WorkerLane* WorkerLanes::find(RegionId region) {
  for (auto& [id, lane] : lanes_) {
    if (lane->region() == region) return lane.get();
  }
  return nullptr;
}

}  // namespace laneway::service
