// Shows that equal tapes share one plan, that other tapes never get it, and that the cache stays
// within its limit.
#include "service/worker/run/plan_cache.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "service/worker/common/limits.h"
#include "tests/support/plan_check.h"

namespace laneway::service {
namespace {

memory::AllocationTape tape_of(uint64_t bytes) {
  memory::AllocationTape tape;
  tape.allocations = {{bytes, 0}, {2 * bytes, 0}, {bytes, 1}};
  tape.frees = {0, 1, 2};
  return tape;
}

TEST(PlanCache, PlansATapeOnce) {
  PlanCache cache{limits::kHostAlignment};
  const auto first = cache.plan(tape_of(1000));
  const auto again = cache.plan(tape_of(1000));
  EXPECT_EQ(first.planned, again.planned);
  EXPECT_EQ(first.plan_s, again.plan_s);
  EXPECT_TRUE(memory::check_plan(first.planned->tape, first.planned->plan));
  // 1000 and 2000 bytes are alive together, padded to the alignment.
  EXPECT_EQ(first.bound, Bytes(1024 + 2048));
  EXPECT_GE(first.planned->plan.peak, first.bound);
}

TEST(PlanCache, KeepsOtherTapesApart) {
  PlanCache cache{limits::kHostAlignment};
  const auto first = cache.plan(tape_of(1000));
  // Padded they are the same; what is asked for is not.
  const auto other = cache.plan(tape_of(1001));
  EXPECT_NE(first.planned, other.planned);
  EXPECT_EQ(other.planned->tape.allocations[0].bytes, 1001U);
}

TEST(PlanCache, APlanThatWasMadeElsewhereIsSharedByAllWithItsTape) {
  PlanCache cache{limits::kHostAlignment};
  PlanCache other{limits::kHostAlignment};
  const auto foreign = other.plan(tape_of(1000));
  EXPECT_EQ(cache.add(foreign).planned, foreign.planned);
  EXPECT_EQ(cache.plan(tape_of(1000)).planned, foreign.planned);
  EXPECT_EQ(cache.add(PlanCache{limits::kHostAlignment}.plan(tape_of(1000))).planned,
            foreign.planned)
      << "the first one stays";
}

TEST(PlanCache, StaysWithinItsLimit) {
  PlanCache cache{limits::kHostAlignment};
  std::vector<std::weak_ptr<const memory::PlannedTape>> plans;
  for (uint64_t i = 0; i < limits::kMaxCachedPlans + 100; ++i)
    plans.push_back(cache.plan(tape_of(64 + i)).planned);
  size_t alive = 0;
  for (const auto& plan : plans) alive += plan.expired() ? 0 : 1;
  EXPECT_EQ(alive, limits::kMaxCachedPlans);
}

}  // namespace
}  // namespace laneway::service
