// LeavingOrder: of each image in the pool what decides whether it leaves, side by side in memory,
// so that the question who leaves first costs one pass over little more than numbers. Kept up to
// date when it is asked, by the jobs that were noted since (job_table.h). Part of the core; not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "lanes/checked_policy.h"
#include "lanes/coarse_key.h"
#include "lanes/core_state.h"
#include "policies/first_to_leave.h"

namespace laneway::lanes {

class LeavingOrder {
 public:
  // Must be called before a question. The policy is the same as before, or all jobs are noted.
  void refresh(CoreState& core, const CheckedPolicy& policy);
  // Of those that may leave now for a job of that rank, which is not one of them: the first one, as
  // first_to_leave.h says. Null: nobody does. Requires: the policy keeps its order.
  const Job* first(TimePoint now, const Job& wants, int64_t rank) const;
  // Of those with a whole copy outside that could be given up the one used last, the lowest id of
  // equal ones, and none of `leaving`. Null: there is none.
  const Job* last_used_with_copy(std::span<const JobId> leaving) const;
  // Checks what is kept of jobs that were not noted since.
  void check(const CoreState& core, const CheckedPolicy& policy) const;

 private:
  struct Image {
    const Job* job = nullptr;
    policies::Leaver leaver;
    bool has_spare_copy = false;
    int32_t priority = 0;
    TimePoint from = TimePoint::never();  // when it may leave
    friend bool operator==(const Image&, const Image&) = default;
  };
  static Image image_of(const CoreState& core, const CheckedPolicy& policy, const Job& job);
  void put(const CoreState& core, const CheckedPolicy& policy, const Job& job);
  void erase(uint64_t arrival);
  void show(size_t place);
  // Where it is or belongs.
  size_t place_of(uint64_t arrival) const;
  bool has(size_t place, uint64_t arrival) const {
    return place < arrivals_.size() && arrivals_[place] == arrival;
  }
  // Of a time since `base_`.
  int32_t coarse(TimePoint time) const;

  // Of jobs that were in the pool once, by arrival: one that left keeps its entry, which says
  // nothing, because it is about to come back as a rule.
  std::vector<uint64_t> arrivals_;
  std::vector<Image> images_;
  // Of each of them, rounded, so that most are passed over: its rank, but the highest of those that
  // are idle and none of those that never leave; and when it was used, if there is a copy to spare.
  CoarseKeys ranks_;
  CoarseKeys used_at_;
  TimePoint base_;
  Bytes capacity_;  // of the pool, on which ranks may depend
  // By the last bits of an arrival, where it was found last.
  static constexpr size_t kHints = 4096;
  std::vector<uint32_t> hints_ = std::vector<uint32_t>(kHints);
};

}  // namespace laneway::lanes
