// Numeric contexts take turns by the number of their jobs: who gets how many turns, how often lanes
// drain for a change, and what ends a period early.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

constexpr uint64_t kMany = 1;  // the key of many jobs
constexpr uint64_t kOne = 2;   // … of one

class SchedulerContextsTest : public SchedulerTest {
 protected:
  void make_with(const std::string& policy, uint32_t lanes) {
    make(1000, lanes, 0, policies::make_policy(policy).value());
  }
  void add(uint64_t id, uint64_t key, int64_t ephemeral = 5) {
    keys_[id] = key;
    note(start(id, 5, ephemeral, key));
  }
  void note(const std::vector<Action>& actions) {
    for (const GrantTurn& grant : of<GrantTurn>(actions)) {
      const uint64_t job = grant.turn.job.value();
      open_.push_back(grant.turn);
      ++turns_[job];
      changes_ += keys_.at(job) != key_;
      key_ = keys_.at(job);
    }
  }
  // The turn that was granted first ends; its job has more to do, or not.
  void end_first(bool more_ready = true) {
    ASSERT_FALSE(open_.empty()) << "nobody runs";
    const Turn turn = open_.front();
    open_.erase(open_.begin());
    now_ = now_ + milliseconds(1);
    note(send(TurnEnded{.turn = turn.id,
                        .end = TurnEnd::budget,
                        .iterations = 1,
                        .busy = milliseconds(1),
                        .more_ready = more_ready,
                        .ephemeral = Bytes(0)}));
  }

  std::map<uint64_t, uint64_t> keys_;  // by job
  std::vector<Turn> open_;
  std::map<uint64_t, int> turns_;  // by job
  uint64_t key_ = 0;               // of the latest turn
  int changes_ = 0;
};

TEST_F(SchedulerContextsTest, AJobAloneWithItsKeyGetsWhatAnyOtherGets) {
  make_with("fair", 2);
  for (uint64_t id = 1; id <= 20; ++id) add(id, kMany);
  add(21, kOne);
  for (int i = 0; i < 4200; ++i) end_first();
  for (uint64_t id = 1; id <= 21; ++id) {
    EXPECT_GE(turns_[id], 120) << "job " << id;
    EXPECT_LE(turns_[id], 280) << "job " << id;
  }
  EXPECT_LE(changes_, 2 * turns_[21] + 2) << "lanes drain for its turns alone";
}

TEST_F(SchedulerContextsTest, EqualNumbersAlternate) {
  make_with("fair", 2);
  add(1, kMany);
  add(2, kOne);
  for (int i = 0; i < 100; ++i) end_first();
  EXPECT_NEAR(turns_[1], turns_[2], 2);
}

TEST_F(SchedulerContextsTest, APeriodIsOverWhenItsJobsHaveNothingToRun) {
  make_with("fifo", 2);
  for (uint64_t id = 1; id <= 6; ++id) add(id, kMany);
  add(7, kOne);
  EXPECT_EQ(turns_[7], 0);
  for (int i = 0; i < 12 && turns_[7] == 0; ++i) end_first(/*more_ready=*/false);
  EXPECT_EQ(turns_[7], 1);
}

TEST_F(SchedulerContextsTest, NothingIsDueInALaneThatIsClosed) {
  make(192, 3, 0, policies::make_policy("fair").value());  // no region can grow
  add(1, kMany, /*ephemeral=*/60);
  add(2, kMany, /*ephemeral=*/50);
  add(3, kOne, /*ephemeral=*/50);
  for (const uint64_t id : {4, 5, 6}) add(id, kMany, /*ephemeral=*/60);
  const LaneId closes = job(1).lane;
  for (const uint64_t id : {4, 5, 6}) ASSERT_EQ(job(id).lane, closes);
  // Until the period of the many has begun.
  for (int i = 0; i < 200 && (turns_[3] < 3 || key_ != kMany); ++i) end_first();
  ASSERT_EQ(key_, kMany);
  for (const uint64_t id : {1, 4, 5, 6}) note(send(JobEnded{JobId(id), true}));
  const int before = turns_[3];
  for (int i = 0; i < 10 && turns_[3] == before; ++i) end_first();
  EXPECT_GT(turns_[3], before);
}

TEST_F(SchedulerContextsTest, AMoreUrgentJobWaitsForNoPeriod) {
  make_with("priority", 2);
  for (uint64_t id = 1; id <= 6; ++id) add(id, kMany);
  keys_[7] = kOne;
  offer_urgent(7, 5, 5, /*priority=*/5, kOne);
  place(7);
  note(ready(7));
  const size_t open = open_.size();
  for (size_t i = 0; i < open; ++i) end_first();
  EXPECT_EQ(turns_[7], 1) << "only the turns that were open came before it";
}

TEST_F(SchedulerContextsTest, JobsOfNoUrgencyMakeNoPeriodLonger) {
  make_with("fair", 2);
  for (uint64_t id = 1; id <= 8; ++id) {
    keys_[id] = kMany;
    JobOffered job;
    job.job = JobId(id);
    job.session = SessionId(1);
    job.options.job_class = id > 1 ? JobClass::best_effort : JobClass::training;
    job.persistent = units(5);
    job.ephemeral = units(5);
    job.context_key = kMany;
    send(job);
    place(id);
    note(ready(id));
  }
  add(9, kOne);
  for (int i = 0; i < 200; ++i) end_first();
  EXPECT_NEAR(turns_[1], turns_[9], 20);
}

}  // namespace
}  // namespace laneway::lanes
