// What LeavingOrder answers is what a look at every job answers, while jobs come, go and change;
// and it finds a job that changed behind its back.
#include "lanes/leaving_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "lanes/may_leave.h"
#include "policies/srtf.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

SchedulerConfig with_store() {
  SchedulerConfig config;
  config.capacity = mib(1);
  config.store = mib(1);
  return config;
}

class LeavingOrderTest : public ::testing::Test {
 protected:
  Job& add(uint64_t id) {
    JobOffered offer;
    offer.job = JobId(id);
    offer.persistent = kib(4);
    return core_.jobs.add(core_.new_job(offer));
  }
  // Its image is in the pool, and it has work.
  Job& busy(uint64_t id, int64_t rank, int64_t placed_at = 1) {
    Job& job = add(id);
    job.view.lane = LaneId(1);
    job.move_to(JobState::staged);
    job.move_to(JobState::resident);
    job.work_announced = true;
    job.view.busy = Duration(rank);  // what srtf takes for what is left of it
    job.view.placed_at = TimePoint(placed_at);
    return job;
  }
  static void change(Job& job, Random& random) {
    job.view.lane = random.chance(0.8) ? LaneId(1) : LaneId();
    job.view.busy = Duration(random.between(1, 4));
    job.view.placed_at = TimePoint(random.between(0, 3));
    job.view.used_at = TimePoint(random.between(0, 3));
    job.view.options.priority = static_cast<int32_t>(random.between(0, 1));
    job.leave_no_sooner = TimePoint(random.between(0, 1) * milliseconds(900).ns());
    job.work_announced = random.chance(0.95);
    for (bool* flag : std::array{&job.clean, &job.pinned}) *flag = random.chance(0.5);
    for (bool* flag : std::array{&job.arriving, &job.saving, &job.leaves}) {
      *flag = random.chance(0.1);
    }
    job.view.persistent = random.chance(0.1) ? mib(2) : kib(4);  // the store has 1
    const bool rests = random.chance(0.8);
    if (rests != (job.state() == JobState::resident)) {
      job.move_to(rests ? JobState::resident : JobState::evicting);
    }
  }
  // What first() is to answer, by a look at each.
  const Job* naive_first(const Job& wants) const {
    policies::FirstToLeave leaves(core_.now, wants.view.busy.ns());
    std::vector<const Job*> by_arrival;
    for (const auto& [id, job] : core_.jobs) by_arrival.push_back(&job);
    std::ranges::sort(by_arrival, {}, [](const Job* job) { return job->view.arrival; });
    const Job* first = nullptr;
    for (const Job* job : by_arrival) {
      const bool idle = is_idle(*job);
      if (job == &wants || !could_leave(*job) || job->view.persistent > mib(1)) continue;
      if (!idle && job->view.options.priority > wants.view.options.priority) continue;
      if (may_leave_from(core_, *job, idle) > core_.now) continue;
      const policies::EvictCandidate one{.job = &job->view, .idle = idle, .clean = job->clean};
      if (leaves.is_first(policies::leaver(one, job->view.busy.ns()))) first = job;
    }
    return first;
  }
  const Job* naive_last_used(JobId leaving) const {
    const Job* last = nullptr;
    for (const auto& [id, job] : core_.jobs) {
      const bool spare = job.view.lane.valid() && job.clean && !job.arriving && !job.leaves &&
                         !job.saving && job.state() == JobState::resident;
      if (!spare || id == leaving) continue;
      if (last == nullptr || job.view.used_at > last->view.used_at) last = &job;
    }
    return last;
  }

  CoreState core_{with_store()};
  CheckedPolicy policy_{std::make_unique<policies::Srtf>()};
  LeavingOrder order_;
};

TEST_F(LeavingOrderTest, AnswersAsALookAtEveryJob) {
  Random random(testing::seed_from_environment(77));
  core_.now = TimePoint(milliseconds(800).ns());
  int found = 0;
  std::vector<uint64_t> known;
  for (uint64_t step = 1; step <= 4'000; ++step) {
    if (known.size() < 3 || random.chance(0.1)) {
      change(busy(step % 2 == 0 ? 10'000 - step : step, 1), random);
      known.push_back(step % 2 == 0 ? 10'000 - step : step);
    } else if (random.chance(0.1)) {
      const size_t gone = random.below(known.size());
      core_.jobs.remove(JobId(known[gone]));
      known.erase(known.begin() + static_cast<std::ptrdiff_t>(gone));
    } else {
      change(core_.job_of(JobId(known[random.below(known.size())])), random);
    }
    order_.check(core_, policy_);
    if (random.chance(0.5)) continue;
    order_.refresh(core_, policy_);
    order_.check(core_, policy_);
    const JobId id(known[random.below(known.size())]);
    const Job& wants = std::as_const(core_).job_of(id);
    const Job* const first = naive_first(wants);
    ASSERT_EQ(order_.first(core_.now, wants, wants.view.busy.ns()), first) << "step " << step;
    ASSERT_EQ(order_.last_used_with_copy(std::span(&id, 1)), naive_last_used(id));
    found += first != nullptr;
  }
  EXPECT_GT(found, 500);
}

// The rank of a policy may depend on it, as that of las does.
TEST_F(LeavingOrderTest, LooksAtAllAgainWhenThePoolHasAnotherCapacity) {
  Job& job = busy(1, 5);
  const Job& wants = busy(2, 3);
  core_.now = TimePoint(seconds(1).ns());
  order_.refresh(core_, policy_);
  EXPECT_EQ(order_.first(core_.now, wants, 3), &job);
  job.view.busy = Duration(1);  // and is not noted
  core_.view.set_pool({.capacity = kib(64), .claimed = {}, .largest_free = {}});
  order_.refresh(core_, policy_);
  EXPECT_EQ(order_.first(core_.now, wants, 3), nullptr);
}

using LeavingOrderDeathTest = LeavingOrderTest;

TEST_F(LeavingOrderDeathTest, FindsAJobThatChangedAndWasNotNoted) {
  Job& job = busy(1, 5);
  order_.refresh(core_, policy_);
  order_.check(core_, policy_);
  job.view.busy = Duration(4);  // through a reference from before
  EXPECT_DEATH(order_.check(core_, policy_), "changed and was not noted");
}

}  // namespace
}  // namespace laneway::lanes
