// Shows the gate's rules one by one, and then by property: two lanes run random staircases of
// heights under the gate in random order, with allocations off the plan thrown in. Their heights
// never add up to more than the region, at every moment one of them can go on, everything ends,
// and nobody is sent away inside its commit phase. A gate that ignores the partner is caught by
// the same checker, so it can fail.
#include "lanes/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

constexpr Bytes kRegion(1000);

GateLane lane(int64_t height, int64_t reach) { return {Bytes(height), Bytes(reach), true, false}; }
GatePartner elder(int64_t reach) { return {true, true, false, Bytes(reach)}; }
GatePartner younger(int64_t reach) { return {true, false, false, Bytes(reach)}; }

TEST(Gate, OneLaneIsBoundedByItsRegion) {
  EXPECT_EQ(gate(GatePoint::iteration_start, kRegion, lane(0, 1000), {}), GateOutcome::go);
  EXPECT_EQ(gate(GatePoint::iteration_start, kRegion, lane(0, 1001), {}), GateOutcome::grow);
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, lane(1000, 1000), {}), GateOutcome::go);
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, lane(1001, 1001), {}), GateOutcome::grow);
}

// Before the commit phase the height decides; to enter it, all that can still be reached must fit.
TEST(Gate, CommitPhaseNeedsRoomForTheRest) {
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, lane(400, 1001), {}), GateOutcome::go);
  EXPECT_EQ(gate(GatePoint::commit_phase, kRegion, lane(400, 1001), {}), GateOutcome::grow);
  EXPECT_EQ(gate(GatePoint::commit_phase, kRegion, lane(400, 1000), {}), GateOutcome::go);
}

TEST(Gate, AloneAnAllocationOffThePlanOnlyNeedsRoom) {
  GateLane off = lane(900, 500);
  off.on_plan = false;
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, off, {}), GateOutcome::go);
  off.height = Bytes(1001);
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, off, {}), GateOutcome::grow);
}

TEST(Gate, YoungerFitsBesideAllThatTheElderCanReach) {
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, lane(400, 700), elder(600)), GateOutcome::go);
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, lane(401, 700), elder(600)),
            GateOutcome::wait_partner);
  EXPECT_EQ(gate(GatePoint::commit_phase, kRegion, lane(400, 700), elder(300)), GateOutcome::go);
  EXPECT_EQ(gate(GatePoint::commit_phase, kRegion, lane(400, 700), elder(301)),
            GateOutcome::wait_partner);
}

TEST(Gate, ElderNeverWaits) {
  for (const GatePoint point : {GatePoint::allocation, GatePoint::commit_phase}) {
    EXPECT_EQ(gate(point, kRegion, lane(1000, 1000), younger(1000)), GateOutcome::go);
    EXPECT_EQ(gate(point, kRegion, lane(1001, 1001), younger(0)), GateOutcome::grow);
  }
}

TEST(Gate, StartsAtHeightZeroBesideAnything) {
  EXPECT_EQ(gate(GatePoint::iteration_start, kRegion, lane(0, 1000), elder(1000)), GateOutcome::go);
  EXPECT_EQ(gate(GatePoint::iteration_start, kRegion, lane(0, 1001), elder(0)), GateOutcome::grow);
}

TEST(Gate, InItsCommitPhaseALaneNeverWaits) {
  GateLane committing = lane(400, 700);
  committing.in_commit = true;
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, committing, elder(1000)), GateOutcome::go);
}

TEST(Gate, OffThePlanThePartnerDrainsFirst) {
  GateLane off = lane(10, 10);
  off.on_plan = false;
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, off, elder(0)), GateOutcome::off_tape_drain);
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, off, younger(0)), GateOutcome::off_tape_drain);
  off.in_commit = true;
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, off, younger(0)), GateOutcome::fail);
}

TEST(Gate, NobodyWaitsForADrainingElder) {
  GatePartner draining = elder(600);
  draining.draining = true;
  EXPECT_EQ(gate(GatePoint::iteration_start, kRegion, lane(0, 10), draining),
            GateOutcome::wait_partner);
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, lane(400, 400), draining), GateOutcome::go);
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, lane(401, 401), draining), GateOutcome::give_way);
  GateLane off = lane(10, 10);
  off.on_plan = false;
  EXPECT_EQ(gate(GatePoint::allocation, kRegion, off, draining), GateOutcome::give_way);
}

// ---- two random staircases under the gate ----

using GateFunction = GateOutcome (*)(GatePoint, Bytes, const GateLane&, const GatePartner&);

// One iteration as steps of height, with the highest that is still to come at each step, and the
// step at which it commits.
struct Staircase {
  std::vector<Bytes> height;
  std::vector<Bytes> reach;
  size_t commit = 0;

  Bytes peak() const { return reach.front(); }
};

Staircase random_staircase(Random& random) {
  Staircase stairs;
  const auto steps = static_cast<size_t>(random.between(1, 30));
  const int64_t scale = random.between(1, 500);
  for (size_t i = 0; i < steps; ++i) stairs.height.push_back(Bytes(random.between(0, scale)));
  stairs.reach = stairs.height;
  for (size_t i = steps - 1; i-- > 0;) {
    stairs.reach[i] = std::max(stairs.height[i], stairs.reach[i + 1]);
  }
  stairs.commit = random.below(steps + 1);
  return stairs;
}

// A lane that repeats its staircase; what it publishes is what the gate of the other sees.
struct Runner {
  Staircase stairs;
  int iterations_left = 0;
  double off_plan_chance = 0;

  bool running = false;
  uint64_t rank = 0;  // of its start: the lower is the elder
  size_t step = 0;
  Bytes height;
  bool in_commit = false;
  bool off_plan = false;  // from here to the end of this iteration
  bool draining = false;
  int given_way = 0;

  // An iteration that is off its plan holds at its height, or is alone.
  Bytes reach() const {
    if (draining || step >= stairs.reach.size()) return height;
    return std::max(height, stairs.reach[step]);
  }
  void end() {
    running = in_commit = off_plan = draining = false;
    step = 0;
    height = Bytes();
  }
};

struct Verdict {
  bool overlapped = false;
  bool deadlocked = false;
  bool unexpected = false;  // grow, fail, or give_way inside the commit phase
  bool ended = false;
  int off_plan_runs = 0;
  int waits = 0;
};

// Asks the gate for one move of `self` and makes it. False when the lane has to stay where it is.
bool move(GateFunction decide, Bytes region, Runner& self, const Runner& other, uint64_t& clock,
          Random& random, Verdict& verdict) {
  const GatePartner partner{other.running,
                            other.running && (!self.running || other.rank < self.rank),
                            other.draining, other.reach()};
  GatePoint point = GatePoint::allocation;
  if (!self.running) {
    point = GatePoint::iteration_start;
  } else if (self.step == self.stairs.commit && !self.in_commit) {
    point = GatePoint::commit_phase;
  }
  const bool allocates = point == GatePoint::allocation && self.step < self.stairs.height.size();
  if (self.running && self.step == self.stairs.height.size() && point == GatePoint::allocation) {
    --self.iterations_left;
    self.end();
    return true;
  }
  if (allocates && !self.in_commit && !self.off_plan && random.chance(self.off_plan_chance)) {
    self.off_plan = true;
    ++verdict.off_plan_runs;
  }
  const Bytes raised = allocates ? self.stairs.height[self.step] : self.height;
  // A height that falls asks nobody.
  const bool asks = !allocates || raised > self.height || self.off_plan;
  const GateOutcome outcome =
      asks ? decide(point, region, {raised, self.reach(), !self.off_plan, self.in_commit}, partner)
           : GateOutcome::go;
  switch (outcome) {
    case GateOutcome::go: break;
    case GateOutcome::off_tape_drain: self.draining = true; return false;
    case GateOutcome::wait_partner: ++verdict.waits; return false;
    case GateOutcome::give_way:
      verdict.unexpected |= self.in_commit;
      ++self.given_way;
      self.end();
      return true;
    default: verdict.unexpected = true; return false;
  }
  if (point == GatePoint::iteration_start) {
    self.running = true;
    self.rank = ++clock;
  } else if (point == GatePoint::commit_phase) {
    self.in_commit = true;
  } else {
    if (self.off_plan) self.draining = true;
    self.height = raised;
    ++self.step;
  }
  return true;
}

Verdict race(GateFunction decide, Random& random, double off_plan_chance) {
  std::array<Runner, 2> lanes;
  for (Runner& runner : lanes) {
    runner.stairs = random_staircase(random);
    runner.iterations_left = static_cast<int>(random.between(1, 20));
    runner.off_plan_chance = off_plan_chance;
  }
  const Bytes low = std::max(lanes[0].stairs.peak(), lanes[1].stairs.peak());
  const Bytes high = lanes[0].stairs.peak() + lanes[1].stairs.peak();
  const Bytes region(random.between(low.count(), high.count()));
  Verdict verdict;
  uint64_t clock = 0;
  int rounds_without_move = 0;
  for (int step = 0; step < 100'000; ++step) {
    const size_t first = random.below(2);
    bool moved = false;
    bool ended = true;
    for (const size_t which : {first, 1 - first}) {
      if (lanes[which].iterations_left == 0) continue;
      ended = false;
      moved = move(decide, region, lanes[which], lanes[1 - which], clock, random, verdict);
      verdict.overlapped |= lanes[0].height + lanes[1].height > region;
      if (moved) break;
    }
    verdict.ended = ended;
    // A lane that begins to drain changes what the other is told the next time it asks.
    rounds_without_move = moved ? 0 : rounds_without_move + 1;
    verdict.deadlocked |= !ended && rounds_without_move > 2;
    if (ended || verdict.deadlocked || verdict.unexpected) break;
  }
  return verdict;
}

TEST(GateProperty, TwoStaircasesNeverOverlapNorDeadlock) {
  Random random(testing::seed_from_environment(31));
  int waits = 0;
  for (int round = 0; round < 5'000; ++round) {
    const Verdict verdict = race(gate, random, 0);
    ASSERT_FALSE(verdict.overlapped) << "round " << round;
    ASSERT_FALSE(verdict.deadlocked) << "round " << round;
    ASSERT_FALSE(verdict.unexpected) << "round " << round;
    ASSERT_TRUE(verdict.ended) << "round " << round;
    waits += verdict.waits;
  }
  EXPECT_GT(waits, 5'000) << "the regions were too roomy to show anything";
}

TEST(GateProperty, NorWithAllocationsOffThePlan) {
  Random random(testing::seed_from_environment(32));
  int off_plan_runs = 0;
  for (int round = 0; round < 5'000; ++round) {
    const Verdict verdict = race(gate, random, 0.02);
    ASSERT_FALSE(verdict.overlapped) << "round " << round;
    ASSERT_FALSE(verdict.deadlocked) << "round " << round;
    ASSERT_FALSE(verdict.unexpected) << "round " << round;
    ASSERT_TRUE(verdict.ended) << "round " << round;
    off_plan_runs += verdict.off_plan_runs;
  }
  EXPECT_GT(off_plan_runs, 1'000);
}

// The checker can fail: without the partner in the rule lanes overlap, with both waiting they lock.
TEST(GateProperty, WrongGatesAreCaught) {
  const GateFunction blind = [](GatePoint point, Bytes region, const GateLane& self,
                                const GatePartner&) { return gate(point, region, self, {}); };
  const GateFunction polite = [](GatePoint point, Bytes region, const GateLane& self,
                                 const GatePartner& partner) {
    GatePartner always_elder = partner;
    always_elder.elder = true;
    return gate(point, region, self, always_elder);
  };
  Random random(testing::seed_from_environment(33));
  int overlapped = 0;
  int deadlocked = 0;
  for (int round = 0; round < 500; ++round) {
    overlapped += race(blind, random, 0).overlapped;
    deadlocked += race(polite, random, 0).deadlocked;
  }
  EXPECT_GT(overlapped, 100);
  EXPECT_GT(deadlocked, 100);
}

}  // namespace
}  // namespace laneway::lanes
