// first_to_leave names whom a comparison of all with each other names, whatever comes when; and of
// equal ranks nobody leaves for one that came later.
#include "policies/first_to_leave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "policies/registry.h"
#include "tests/policies/scene.h"
#include "tests/support/seed.h"

namespace laneway::policies {
namespace {

constexpr TimePoint kNow(100);

JobView any_job(uint64_t id, Random& random) {
  JobView job;
  job.id = JobId(id);
  job.arrival = job.queue = id;
  job.placed_at = TimePoint(random.between(0, 3));
  job.used_at = TimePoint(random.between(80, 90));
  job.busy = Duration(random.between(0, 3));  // its rank
  if (random.chance(0.4)) {
    job.options.job_class = JobClass::inference;
    job.queue = 10 + random.below(10) * 10 + id;
  }
  return job;
}

int64_t rank_of(const JobView& job) { return job.busy.ns(); }

bool leaves_before(const EvictCandidate& a, const EvictCandidate& b) {
  if (a.idle != b.idle) return a.idle;
  const auto unused = [](const EvictCandidate& one) {
    return (kNow - one.job->used_at).ns() * (one.clean ? 2 : 1);
  };
  if (a.idle) return unused(a) > unused(b);
  if (rank_of(*a.job) != rank_of(*b.job)) return rank_of(*a.job) > rank_of(*b.job);
  if (is_by_request(*a.job) && is_by_request(*b.job)) return a.job->placed_at < b.job->placed_at;
  return turn_of(*a.job) > turn_of(*b.job);
}

bool may_leave_for(const JobView& wants, const EvictCandidate& one) {
  if (one.idle) return true;
  if (rank_of(wants) != rank_of(*one.job)) return rank_of(wants) < rank_of(*one.job);
  if (is_by_request(wants) && is_by_request(*one.job)) return true;
  return turn_of(wants) < turn_of(*one.job);
}

// Requests and trainings of one rank have no order of their own that all agree on: of such a set
// whoever is named may be, and nobody of a higher rank.
bool is_mixed(const std::vector<EvictCandidate>& all) {
  return std::any_of(all.begin(), all.end(), [&](const EvictCandidate& one) {
    return is_by_request(*one.job) != is_by_request(*all.front().job);
  });
}

TEST(FirstToLeave, IsTheLastByTheOrderAndNeverForALaterOne) {
  Random random(testing::seed_from_environment(411));
  int nobody = 0;
  int compared = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<JobView> jobs;
    for (uint64_t id = 1; id <= 6; ++id) jobs.push_back(any_job(id, random));
    std::swap(jobs.front(), jobs[random.below(jobs.size())]);
    std::vector<EvictCandidate> candidates;
    for (size_t i = 1; i < jobs.size(); ++i) {
      candidates.push_back({&jobs[i], random.chance(0.1), random.chance(0.5)});
    }
    const JobId named = first_to_leave(kNow, {jobs[0], candidates}, rank_of);
    std::vector<EvictCandidate> allowed;
    for (const EvictCandidate& one : candidates) {
      if (may_leave_for(jobs[0], one)) allowed.push_back(one);
    }
    ASSERT_EQ(named.valid(), !allowed.empty()) << "round " << round;
    nobody += allowed.empty();
    if (allowed.empty() || is_mixed(allowed)) continue;
    ++compared;
    const auto first = std::min_element(allowed.begin(), allowed.end(), leaves_before);
    const auto same = std::find_if(allowed.begin(), allowed.end(),
                                   [&](const EvictCandidate& one) { return one.job->id == named; });
    ASSERT_NE(same, allowed.end()) << "round " << round;
    ASSERT_FALSE(leaves_before(*first, *same)) << "round " << round;
  }
  EXPECT_GT(nobody, 100);
  EXPECT_GT(compared, 1000);
}

TEST(FirstToLeave, ForAnOverdueJobAnybodyLeavesTheLastFirst) {
  Scene scene;
  scene.in_lane(1, 1, /*ready=*/true);
  scene.in_lane(2, 1, /*ready=*/true);
  const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
  const JobView& wants = scene.waiting(3);
  const auto equal = [](const JobView& /*job*/) { return int64_t{0}; };
  EXPECT_FALSE(first_to_leave(kNow, {wants, candidates}, equal).valid());
  EXPECT_EQ(first_to_leave(kNow, {wants, candidates, /*overdue=*/true}, equal), JobId(2));
}

TEST(FirstToLeave, EqualTrainingsNeverLeaveForALaterOneUnderAnyPolicyButFair) {
  for (const std::string& name : policy_names()) {
    if (name == "fair") continue;
    Scene scene;
    scene.view.set_pool({.capacity = Bytes(100), .claimed = {}, .largest_free = {}});
    for (uint64_t id = 1; id <= 3; ++id) {
      JobView& job = id == 2 ? scene.waiting(id) : scene.in_lane(id, 1, /*ready=*/true);
      job.persistent = Bytes(10);
      job.options.total_iterations = 100;
      Scene::set_done(job, 2, milliseconds(1));
    }
    const std::vector<EvictCandidate> candidates = scene.may_leave(/*clean=*/true);
    const JobView& wants = *scene.view.waiting().front();
    const auto policy = make_policy(name).value();
    EXPECT_EQ(policy->evict(kNow, scene.view, {wants, candidates}).job, JobId(3)) << name;
    const std::vector<EvictCandidate> earlier{candidates.front()};
    EXPECT_FALSE(policy->evict(kNow, scene.view, {wants, earlier}).job.valid()) << name;
  }
}

}  // namespace
}  // namespace laneway::policies
