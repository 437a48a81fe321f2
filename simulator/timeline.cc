#include "simulator/timeline.h"

#include <algorithm>

#include "base/check.h"

namespace laneway::simulator {

void Timeline::set(TimePoint now, uint32_t busy_lanes, Bytes memory) {
  LW_CHECK(now >= now_, "time goes on");
  while (now.ns() > width_ns_ * static_cast<int64_t>(kMostSteps)) widen();
  while (now_ < now) {
    const int64_t step = now_.ns() / width_ns_;
    const int64_t until = std::min((step + 1) * width_ns_, now.ns());
    const auto passed = static_cast<double>(until - now_.ns());
    sums_.resize(static_cast<size_t>(step) + 1);
    sums_.back().lanes += lanes_ * passed;
    sums_.back().memory += memory_ * passed;
    now_ = TimePoint() + Duration(until);
  }
  lanes_ = busy_lanes;
  memory_ = static_cast<double>(memory.count());
}

void Timeline::widen() {
  for (size_t i = 0; i < sums_.size(); i += 2) {
    Sum both = sums_[i];
    if (i + 1 < sums_.size()) {
      both.lanes += sums_[i + 1].lanes;
      both.memory += sums_[i + 1].memory;
    }
    sums_[i / 2] = both;
  }
  sums_.resize((sums_.size() + 1) / 2);
  width_ns_ *= 2;
}

std::vector<Timeline::Step> Timeline::steps() const {
  std::vector<Step> steps;
  for (const Sum& sum : sums_) {
    Step step;
    step.from = TimePoint() + Duration(static_cast<int64_t>(steps.size()) * width_ns_);
    step.to = std::min(step.from + Duration(width_ns_), now_);
    const auto length = static_cast<double>((step.to - step.from).ns());
    step.busy_lanes = sum.lanes / length;
    step.memory_bytes = sum.memory / length;
    steps.push_back(step);
  }
  return steps;
}

}  // namespace laneway::simulator
