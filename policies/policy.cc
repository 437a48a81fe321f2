#include "policies/policy.h"

#include <algorithm>

#include "policies/first_to_leave.h"

namespace laneway::policies {

size_t Policy::count_before(TimePoint now, const View& view, const JobView& job) const {
  const int64_t its_rank = admission_rank(now, view, job);
  const uint64_t its_turn = turn_of(job);
  const auto goes_before = [&](const JobView* one) {
    const int64_t rank = admission_rank(now, view, *one);
    return rank < its_rank || (rank == its_rank && turn_of(*one) < its_turn);
  };
  const auto& waiting = view.waiting();
  return static_cast<size_t>(std::count_if(waiting.begin(), waiting.end(), goes_before));
}

}  // namespace laneway::policies
