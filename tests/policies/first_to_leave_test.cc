// FirstToLeave names the one that a comparison of all with each other names, whatever comes when;
// and a policy that says that it keeps its order answers by that order.
#include "policies/first_to_leave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "policies/registry.h"
#include "tests/policies/scene.h"
#include "tests/support/seed.h"

namespace laneway::policies {
namespace {

constexpr TimePoint kNow(100);

Leaver any_leaver(Random& random) {
  return {.rank = random.between(0, 3),
          .placed_at = TimePoint(random.between(0, 3)),
          .used_at = TimePoint(random.between(80, 90)),
          .idle = random.chance(0.1),
          .clean = random.chance(0.5)};
}

// The rule, read aloud.
bool leaves_before(const Leaver& a, const Leaver& b) {
  if (a.idle != b.idle) return a.idle;
  const auto unused = [](const Leaver& one) {
    return (kNow - one.used_at).ns() * (one.clean ? 2 : 1);
  };
  if (a.idle) return unused(a) > unused(b);
  return a.rank != b.rank ? a.rank > b.rank : a.placed_at < b.placed_at;
}

TEST(FirstToLeave, IsTheOneThatAComparisonOfAllNames) {
  Random random(testing::seed_from_environment(411));
  int nobody = 0;
  for (int round = 0; round < 5'000; ++round) {
    const int64_t wants = random.between(0, 4);
    std::vector<Leaver> all(random.below(8));
    for (Leaver& one : all) one = any_leaver(random);
    const Leaver* naive = nullptr;
    for (const Leaver& one : all) {
      if (!one.idle && one.rank < wants) continue;
      if (naive == nullptr || leaves_before(one, *naive)) naive = &one;
    }
    FirstToLeave leaves(kNow, wants);
    const Leaver* first = nullptr;
    for (const Leaver& one : all) {
      const bool in_vain = !one.idle && one.rank < leaves.least_rank();
      const bool is_first = leaves.is_first(one);
      ASSERT_FALSE(in_vain && is_first) << "round " << round;
      if (is_first) first = &one;
    }
    ASSERT_EQ(first, naive) << "round " << round;
    nobody += first == nullptr;
  }
  EXPECT_GT(nobody, 100);
}

// Jobs that policies tell apart, and some that they do not.
void make_any(JobView& job, Random& random) {
  job.busy = milliseconds(random.between(0, 200'000));
  job.persistent = Bytes(random.between(1, 40));
  job.offered_at = TimePoint(random.between(0, 3));
  job.placed_at = TimePoint(random.between(4, 7));
  job.used_at = TimePoint(random.between(80, 90));
  job.options.priority = static_cast<int32_t>(random.between(-1, 1));
  if (random.chance(0.5)) job.options.deadline = Duration(random.between(1, 4));
  if (random.chance(0.7)) Scene::set_remaining(job, random.below(5), milliseconds(10));
}

void expect_answers_by_its_order(Policy& policy, Random& random) {
  Scene scene;
  scene.view.set_pool({.capacity = Bytes(100), .claimed = {}, .largest_free = {}});
  for (uint64_t id = 1; id <= 12; ++id) {
    make_any(id <= 4 ? scene.waiting(id) : scene.in_lane(id, id % 3 + 1, random.chance(0.8)),
             random);
  }
  const auto rank = [&](const JobView& job) { return policy.kept_rank(scene.view, job); };
  const JobView& wants = *scene.view.waiting()[random.below(4)];
  const std::vector<EvictCandidate> candidates = scene.may_leave(random.chance(0.5));
  FirstToLeave leaves(kNow, rank(wants));
  JobId first;
  for (const EvictCandidate& one : candidates) {
    if (leaves.is_first(leaver(one, rank(*one.job)))) first = one.job->id;
  }
  EXPECT_EQ(policy.evict(kNow, scene.view, {wants, candidates}), first);
  ASSERT_FALSE(policy.has_reservations(kNow, scene.view));
  for (const JobView* job : scene.view.waiting()) {
    EXPECT_EQ(policy.admission_rank(kNow, scene.view, *job), rank(*job));
  }
  const JobId looked_for = policy.admit(kNow, scene.view).job;
  scene.view.rank_waiting(rank);
  EXPECT_EQ(policy.admit(kNow, scene.view).job, looked_for);
}

TEST(FirstToLeave, EveryPolicyThatKeepsItsOrderAnswersByIt) {
  Random random(testing::seed_from_environment(412));
  for (const std::string& name : policy_names()) {
    const std::unique_ptr<Policy> policy = make_policy(name).value();
    if (!policy->keeps_order()) continue;
    for (int round = 0; round < 500; ++round) {
      SCOPED_TRACE(name + ", round " + std::to_string(round));
      expect_answers_by_its_order(*policy, random);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace laneway::policies
