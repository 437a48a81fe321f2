#include "lanes/state/lane_limit.h"

#include <utility>

namespace laneway::lanes {

double LaneLimit::Told::middle_pace() const {
  std::vector<double> sorted = paces;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[middle];
  return (sorted[middle - 1] + sorted[middle]) / 2;
}

LaneLimit::LaneLimit(const LaneLimitRules& rules, size_t slots)
    : rules_(rules),
      slots_(slots),
      lanes_(std::clamp(rules.first, 1U, static_cast<uint32_t>(slots))) {}

void LaneLimit::set_wanted(TimePoint now, bool wanted) {
  if (trying()) give_up(now);
  wanted_ = wanted;
}

void LaneLimit::jobs_changed(TimePoint now) {
  if (!on()) return;
  changed_ = true;
  if (trying()) return;
  no_sooner_ = std::min(no_sooner_, ended_at_ + took_ * kShare);
  if (due_ != TimePoint::never()) due_ = std::min(due_, std::max(no_sooner_, now + rules_.after));
}

void LaneLimit::look_again(TimePoint now, const Load& load) {
  if (!trying()) return begin(now, load);
  LaneSet active = load.busy;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (std::exchange(slots_[i].had_turn, false)) active |= LaneSet{1} << i;
  }
  due_ = now + rules_.after;
  part_ &= active;
  if (level_ == 1) part_ |= load.busy;
  if (is_missing()) return end(now, std::max(before_, best_));
  if (taking_part() < 2) return give_up(now);
  look(now, load.more);
}

void LaneLimit::begin(TimePoint now, const Load& load) {
  due_ = TimePoint::never();
  part_ = load.busy;
  if (taking_part() < 2 && !load.more) return;
  due_ = now + rules_.after;
  began_at_ = now;
  before_ = lanes_;
  best_ = 1;
  best_sum_ = 1000;
  usual_.clear();
  changed_ = doubt_ = false;
  std::fill(slots_.begin(), slots_.end(), Slot{});
  opening_ = false;
  if (taking_part() < 2) open_more();
  set_level(now, 1);
}

void LaneLimit::open_more() {
  lanes_ = std::min(step_up(std::max(lanes_, taking_part())), slots());
  opening_ = true;
  old_ = part_;
}

void LaneLimit::set_level(TimePoint now, uint32_t level) {
  level_since_ = now;
  level_ = level;
  turns_ = 0;
  for (Slot& slot : slots_) slot.beside = {};
}

void LaneLimit::turn_began(LaneId lane) {
  slots_[lane.value() - 1].had_turn = true;
  if (level_ == 1) part_ |= set_of(lane);
  ++turns_;
}

void LaneLimit::tell(LaneId lane, JobId job, Duration mean, const IterationSum& measured) {
  const Duration usual = usual_.try_emplace(job, mean).first->second;
  Slot& slot = slots_[lane.value() - 1];
  Told& told = level_ == 1 ? slot.alone : slot.beside;
  if (usual <= Duration() || measured.busy <= Duration()) return;
  const Duration its_usual = usual * static_cast<int64_t>(measured.count);
  told.iterations += measured.count;
  told.usual += its_usual;
  told.took += measured.busy;
  told.paces.push_back(pace_of(its_usual, measured.busy));
}

bool LaneLimit::is_enough(const Told& told) const {
  if (told.paces.empty()) return false;
  if (told.took >= kLong || told.iterations >= kMany) return true;
  return told.iterations >= kEnough && told.took >= rules_.least;
}

LaneSet LaneLimit::silent() const {
  LaneSet silent = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!is_enough(level_ == 1 ? slots_[i].alone : slots_[i].beside)) silent |= LaneSet{1} << i;
  }
  return silent & part_;
}

int64_t LaneLimit::sum_of_speeds() const {
  int64_t sum = 0;
  for (LaneSet left = part_; left != 0; left &= left - 1) {
    const Slot& slot = slots_[static_cast<size_t>(std::countr_zero(left))];
    // Nobody computes faster because others compute: what seems so is noise.
    sum += std::min<int64_t>(
        static_cast<int64_t>(1000 * slot.beside.pace() / slot.alone.middle_pace()), 1000);
  }
  return sum * level_ / taking_part();
}

void LaneLimit::look(TimePoint now, bool more) {
  if (is_missing()) {
    if (turns_ > kTurnsToCome * taking_part()) end(now, std::max(before_, best_));
    return;
  }
  const Duration patience = rules_.least * kMostTimes * taking_part();
  if (turns_ > kMostTurns * taking_part() && now - level_since_ > patience) {
    part_ &= ~silent();
    if (taking_part() < 2) return give_up(now);
  }
  if (silent() == 0) go_on(now, more);
}

void LaneLimit::go_on(TimePoint now, bool more) {
  opening_ = false;
  if (level_ > 1) {
    const int64_t sum = sum_of_speeds();
    const bool pays = sum * 1000 >= best_sum_ * (1000 + kMargin);
    if (!pays) {
      // Two small steps may pay together.
      const bool once_more = sum > best_sum_ && level_ < taking_part() && !doubt_;
      if (!once_more) return end(now, best_);
      doubt_ = true;
      return set_level(now, std::min(step_up(level_), taking_part()));
    }
    best_ = level_;
    best_sum_ = sum;
    doubt_ = false;
  }
  if (best_ < taking_part()) return set_level(now, std::min(step_up(best_), taking_part()));
  if (!more || lanes_ >= slots()) return end(now, std::max(before_, best_));
  open_more();
  set_level(now, 1);
}

void LaneLimit::give_up(TimePoint now) {
  if (trying()) end(now, before_);
}

void LaneLimit::put_off(TimePoint now) {
  give_up(now);
  due_ = TimePoint::never();
  no_sooner_ = std::max(no_sooner_, now + rules_.after);
}

void LaneLimit::end(TimePoint now, uint32_t lanes) {
  same_results_ = lanes == before_ && !changed_ ? std::min(same_results_ + 1, kMostDoublings) : 0;
  lanes_ = lanes;
  level_ = 0;
  part_ = 0;
  due_ = TimePoint::never();
  ended_at_ = now;
  took_ = now - began_at_;
  const Duration least = took_ * kShare;
  const Duration pause = std::max(rules_.again, least) * (int64_t{1} << same_results_);
  no_sooner_ = now + (changed_ ? least : pause);
  changed_ = false;
}

}  // namespace laneway::lanes
