// Scenes in which somebody changes what the policy is told of a job (JobChanged): the core decides
// by it with the same event, whether the job waits for memory, for its turn, or runs.
#include "policies/registry.h"
#include "policies/srtf.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class SchedulerChangedTest : public SchedulerTest {
 protected:
  SchedulerChangedTest() { make(100, 1, 0, std::make_unique<policies::Srtf>()); }
  // A job of so many iterations, each known to take 10 us.
  std::vector<Action> offer_of(uint64_t id, int64_t persistent, int64_t ephemeral, uint64_t total) {
    JobOffered job;
    job.job = JobId(id);
    job.options.total_iterations = total;
    job.iteration_estimate = microseconds(10);
    job.persistent = units(persistent);
    job.ephemeral = units(ephemeral);
    return send(job);
  }
  // Job 3, of 10 iterations, of which no job with an equal graph has measured one.
  static JobOffered unmeasured() {
    JobOffered job;
    job.job = JobId(3);
    job.options.total_iterations = 10;
    job.persistent = units(60);
    job.ephemeral = units(30);
    return job;
  }
  std::vector<Action> declare(uint64_t id, uint64_t total) {
    return send(JobChanged{.job = JobId(id), .changes = total_of(total)});
  }
  static JobChanges total_of(uint64_t total) {
    JobChanges changes;
    changes.given = static_cast<uint8_t>(JobOption::total_iterations);
    changes.values.total_iterations = total;
    return changes;
  }
};

TEST_F(SchedulerChangedTest, OnlyWhatIsGivenChanges) {
  offer_of(1, 10, 10, 40);
  JobChanges changes;
  changes.given =
      static_cast<uint8_t>(JobOption::weight) | static_cast<uint8_t>(JobOption::deadline);
  changes.values.weight = 2;
  changes.values.deadline = seconds(9);
  changes.values.priority = 7;
  changes.values.name = "other";
  send(JobChanged{.job = JobId(1), .changes = changes});
  const JobOptions known = job(1).options;
  EXPECT_EQ(known.weight, 2.0);
  EXPECT_EQ(known.deadline, seconds(9));
  EXPECT_EQ(known.total_iterations, 40u);
  EXPECT_EQ(known.priority, 0);
  EXPECT_EQ(known.name, "");
}

TEST_F(SchedulerChangedTest, AnotherWaitingJobIsTheNextOne) {
  offer_of(1, 60, 30, 10);
  offer_of(2, 60, 30, 20);
  offer_of(3, 60, 30, 30);
  declare(3, 5);
  const auto actions = send(JobEnded{.job = JobId(1), .cancelled = false});
  const auto admitted = of<AdmitJob>(actions);
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].job, JobId(3)) << "5 iterations are fewer than 20";
}

// An equal job has measured an iteration: one that waits is ranked by it (policies that rank by
// time put those of which nothing is known last).
TEST_F(SchedulerChangedTest, AWaitingJobOfWhichATimeIsLearntIsTheNextOne) {
  offer_of(1, 60, 30, 10);
  offer_of(2, 60, 30, 20);
  send(unmeasured());
  send(TimeLearnt{.job = JobId(3), .iteration = microseconds(10)});
  const auto admitted = of<AdmitJob>(send(JobEnded{.job = JobId(1), .cancelled = false}));
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].job, JobId(3)) << "100 us are less than 200";
}

TEST_F(SchedulerChangedTest, AWaitingJobIsRankedByWhatItsClientSays) {
  offer_of(1, 60, 30, 10);
  offer_of(2, 60, 30, 20);
  JobOffered told = unmeasured();
  told.options.iteration_time = microseconds(10);
  send(told);
  const auto admitted = of<AdmitJob>(send(JobEnded{.job = JobId(1), .cancelled = false}));
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].job, JobId(3));
}

// The smallest region first.
class Smallest final : public policies::Ranked {
 public:
  std::string_view name() const override { return "smallest"; }

 private:
  int64_t rank(TimePoint /*now*/, const policies::View& /*view*/,
               const policies::JobView& job) const override {
    return job.ephemeral.count();
  }
};

TEST_F(SchedulerChangedTest, AWaitingJobThatNeedsLessNowIsTheNextOne) {
  make(100, 1, 0, std::make_unique<Smallest>());
  offer_of(1, 60, 30, 10);
  offer_of(2, 60, 20, 10);
  offer_of(3, 60, 30, 10);
  send(NeedChanged{.job = JobId(3), .ephemeral = units(10)});
  const auto admitted = of<AdmitJob>(send(JobEnded{.job = JobId(1), .cancelled = false}));
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].job, JobId(3));
}

TEST_F(SchedulerChangedTest, AnotherPolicyHasAnotherOrderOfThoseWhoWait) {
  offer_of(1, 60, 30, 10);
  offer_of(2, 60, 30, 20);
  offer_of(3, 60, 20, 30);
  scheduler_->set_policy(std::make_unique<Smallest>());
  const auto admitted = of<AdmitJob>(send(JobEnded{.job = JobId(1), .cancelled = false}));
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].job, JobId(3));
}

TEST_F(SchedulerChangedTest, ARivalThatBecameTheMoreUrgentOneHasTheRunningOneRecalled) {
  make(100, 1, 0, policies::make_policy("priority").value());
  start(1, 10, 10);
  start(2, 10, 10);
  end_turn(scheduler_->view().lane(LaneId(1))->running == JobId(1) ? TurnId(1) : TurnId(),
           TurnEnd::budget, /*more_ready=*/true);
  const JobId runs = scheduler_->view().lane(LaneId(1))->running;
  const JobId waits(3 - runs.value());
  JobChanges changes;
  changes.given = static_cast<uint8_t>(JobOption::priority);
  changes.values.priority = -1;
  EXPECT_TRUE(of<RecallTurn>(send(JobChanged{.job = waits, .changes = changes})).empty());
  changes.values.priority = 1;
  EXPECT_EQ(of<RecallTurn>(send(JobChanged{.job = waits, .changes = changes})).size(), 1u);
}

TEST_F(SchedulerChangedTest, OfAJobThatIsGoneNothingIsHeard) {
  offer_of(1, 10, 10, 10);
  EXPECT_TRUE(declare(7, 3).empty());
  EXPECT_EQ(scheduler_->snapshot().ignored_events, 1u);
}

}  // namespace
}  // namespace laneway::lanes
