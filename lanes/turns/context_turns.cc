#include "lanes/turns/context_turns.h"

#include <algorithm>

#include "base/check.h"

namespace laneway::lanes {

bool ContextTurns::may_open(uint64_t key) const {
  if (!queue_.empty()) return key == key_ && owing_ != 0;
  return open_ == 0 || key == key_;
}

void ContextTurns::opened(uint64_t key, LaneId lane) {
  LW_CHECK(open_ == 0 || key == key_, "turns of two numeric contexts would be open");
  if (key != key_) end_period();
  key_ = key;
  ++open_;
  if (is_due(lane)) set_due(lane, due_[lane.value() - 1] - 1);
}

void ContextTurns::closed() {
  LW_CHECK(open_ > 0, "no turn is open");
  --open_;
}

void ContextTurns::set_due(LaneId lane, uint32_t turns) {
  due_[lane.value() - 1] = turns;
  owing_ = turns > 0 ? owing_ | set_of(lane) : owing_ & ~set_of(lane);
}

void ContextTurns::end_period() {
  std::fill(due_.begin(), due_.end(), 0);
  owing_ = 0;
}

bool ContextTurns::wait(uint64_t key) {
  if (std::find(queue_.begin(), queue_.end(), key) != queue_.end()) return false;
  queue_.push_back(key);
  return true;
}

void ContextTurns::keep_only(const std::set<uint64_t>& keys) {
  std::erase_if(queue_, [&keys](uint64_t key) { return keys.count(key) == 0; });
}

bool ContextTurns::next_may_open() const {
  return !queue_.empty() && (open_ == 0 || queue_.front() == key_);
}

uint64_t ContextTurns::take_next() {
  LW_CHECK(next_may_open(), "no key is due");
  end_period();
  key_ = queue_.front();
  queue_.pop_front();
  return key_;
}

}  // namespace laneway::lanes
