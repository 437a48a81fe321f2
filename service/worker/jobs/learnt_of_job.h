// LearntOfJob: what cores have learnt of a job (lanes/state/learnt.h), as the worker keeps it for a
// core that takes over. Not thread-safe.
#pragma once

#include <algorithm>
#include <vector>

#include "lanes/state/action.h"
#include "lanes/state/learnt.h"

namespace laneway::service {

class LearntOfJob {
 public:
  void take(const lanes::KeepLearnt& action) {
    learnt_ = action.learnt;
    if (!action.beside.other.valid()) return;
    std::erase_if(beside_, [&](const auto& one) { return one.other == action.beside.other; });
    if (beside_.size() >= lanes::kMostLearntBeside) beside_.erase(beside_.begin());
    beside_.push_back(action.beside);
  }

  const lanes::Learnt& learnt() const { return learnt_; }
  // The latest last.
  const std::vector<lanes::LearntBeside>& beside() const { return beside_; }

 private:
  lanes::Learnt learnt_;
  std::vector<lanes::LearntBeside> beside_;
};

}  // namespace laneway::service
