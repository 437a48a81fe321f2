// What the policies of the registry promise, in one lane with clients that always have work: nobody
// waits for longer than the bound that was computed before the run, with age=off somebody does; a
// newcomer is measured soon, lies win nothing for long, and fair shares by weight.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policies/registry.h"
#include "tests/simulation/lane_load.h"

namespace laneway::simulation {
namespace {

constexpr TimePoint kEnd = TimePoint(seconds(60).ns());

// common_rules.h: R x age, what is open then, and one iteration of each rival; a turn that ends
// costs a gap.
Duration bound(int64_t rivals, Duration age, Duration longest_iteration) {
  const Duration turn = longest_iteration + milliseconds(1) + LaneLoad::kTurnGap;
  return age * rivals + turn * (rivals + 1);
}

// Its client always has four submissions in flight, and every policy that can starve prefers it.
LoadJob hog() {
  LoadJob job{.iteration = milliseconds(12), .in_flight = 4};
  job.options.total_iterations = 100'000;
  job.options.priority = 5;
  job.options.deadline = seconds(1);
  return job;
}
LoadJob victim() {
  LoadJob job{.iteration = milliseconds(3), .begins = TimePoint(seconds(1).ns())};
  job.options.total_iterations = 1'000'000'000;
  return job;
}

// Policies promise this among jobs of one priority: others may interrupt each other.
LoadJob equal_hog() {
  LoadJob job = hog();
  job.options.priority = victim().options.priority;
  return job;
}

class Waiting : public testing::TestWithParam<std::string> {};

TEST_P(Waiting, NobodyWaitsLongerThanTheBoundAndWithoutAgeingBestEffortDoes) {
  LoadJob best_effort = victim();
  best_effort.options.job_class = JobClass::best_effort;
  const auto longest_wait = [&](const std::string& options) {
    LaneLoad load(GetParam() + options);
    load.add(hog());
    load.add(best_effort);
    load.add(hog());
    load.run(kEnd);
    return load.result(2).longest_wait;
  };
  const Duration defaults = bound(2, seconds(1), milliseconds(12));
  ASSERT_LE(defaults, seconds(5));
  EXPECT_LE(longest_wait(""), defaults);
  EXPECT_LE(longest_wait(":age_s=0.2"), bound(2, milliseconds(200), milliseconds(12)));
  EXPECT_GT(longest_wait(":age=off"), defaults);
}

INSTANTIATE_TEST_SUITE_P(All, Waiting, testing::ValuesIn(policies::policy_names()));

class Starving : public testing::TestWithParam<std::string> {};

TEST_P(Starving, ByItsOrderTooNobodyWaitsLongerThanTheBoundUnlessAgeingIsOff) {
  const auto longest_wait = [&](const std::string& options) {
    LaneLoad load(GetParam() + options);
    load.add(hog());
    load.add(victim());
    load.run(kEnd);
    return load.result(2).longest_wait;
  };
  const Duration defaults = bound(1, seconds(1), milliseconds(12));
  EXPECT_LE(longest_wait(""), defaults);
  EXPECT_GT(longest_wait(":age=off"), defaults);
}

INSTANTIATE_TEST_SUITE_P(ByOrder, Starving,
                         testing::Values("edf", "fifo", "fifo:admit=fit", "priority", "sjf", "srtf",
                                         "srtf:oracle_error=0.5"));

TEST(Promises, AgeingTakesLittleFromThePolicysOrder) {
  LaneLoad load("fifo");
  for (int i = 0; i < 8; ++i) load.add(hog());
  load.run(kEnd);
  // At most one iteration of 12 ms a second goes to the others.
  EXPECT_GT(load.result(1).busy, seconds(58));
}

TEST(Promises, ByRequestEveryRivalHasOneIterationBefore) {
  LaneLoad load("fifo:by=request:age=off");
  load.add(equal_hog());
  load.add(victim());
  load.add(equal_hog());
  load.run(kEnd);
  EXPECT_LE(load.result(2).longest_wait, (milliseconds(12) + LaneLoad::kTurnGap) * 3);
}

TEST(Promises, UnderSrtfAShortNewcomerIsDoneSoonThoughNothingWasKnownOfIt) {
  LaneLoad load("srtf");
  load.add(equal_hog());
  LoadJob quick{.iteration = milliseconds(10), .total = 10, .begins = TimePoint(seconds(5).ns())};
  quick.options.total_iterations = 10;
  load.add(quick);
  load.run(kEnd);
  // Its 100 ms, and at most an iteration of the other one before each of its own.
  EXPECT_LE(load.result(2).ended - TimePoint(seconds(5).ns()), milliseconds(10 * (10 + 12 + 1)));
}

TEST(Promises, UnderSrtfARequestWithoutATotalIsNotLastForEver) {
  LaneLoad load("srtf:age=off");
  load.add(equal_hog());
  LoadJob predict{.iteration = milliseconds(2), .begins = TimePoint(seconds(1).ns())};
  predict.options.job_class = JobClass::inference;
  load.add(predict);
  load.run(kEnd);
  EXPECT_LE(load.result(2).longest_wait, milliseconds(13));
}

TEST(Promises, WhoNamesTooSmallATotalGetsAsMuchAgainAndNoMore) {
  LaneLoad load("srtf:age=off");
  LoadJob honest{.iteration = milliseconds(5), .in_flight = 4, .total = 1000};
  honest.options.total_iterations = 1000;
  LoadJob liar{.iteration = milliseconds(5), .in_flight = 4};
  liar.options.total_iterations = 1;
  load.add(honest);
  load.add(liar);
  load.run(kEnd);
  // The liar is taken to be half done: it is behind once it had the 5 s that the honest one needs.
  EXPECT_LE(load.result(1).ended, TimePoint(seconds(11).ns()));
}

TEST(Promises, FairSharesDeviceTimeByWeightWhateverIterationsTake) {
  LaneLoad load("fair");
  const std::vector<int64_t> iterations_ms = {1, 3, 5, 8, 12, 17, 23, 30};
  const std::vector<double> weights = {1, 2, 4, 1, 2, 4, 1, 2};
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    LoadJob job{.iteration = milliseconds(iterations_ms[i]), .in_flight = 2};
    job.options.weight = weights[i];
    load.add(job);
    sum += weights[i];
  }
  load.run(kEnd);
  Duration all;
  for (size_t i = 0; i < weights.size(); ++i) all += load.result(i + 1).busy;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = all.seconds() * weights[i] / sum;
    EXPECT_NEAR(load.result(i + 1).busy.seconds(), share, std::max(0.05 * share, 0.05))
        << "job " << i + 1;
  }
}

TEST(Promises, UnderFairANewcomerGetsItsShareAndAtMostAQuantumMore) {
  LaneLoad load("fair");
  for (const int64_t begins_s : {0, 0, 40}) {
    LoadJob job{.iteration = milliseconds(7), .in_flight = 2};
    job.begins = TimePoint(seconds(begins_s).ns());
    load.add(job);
  }
  load.run(kEnd);
  const double third = 20.0 / 3;
  EXPECT_LE(load.result(3).busy.seconds(), third + 0.02 + 0.007);
  EXPECT_GE(load.result(3).busy.seconds(), third * 0.98);
}

TEST(Promises, UnderPriorityTheHigherOneHasTheLaneButForAgeing) {
  LaneLoad load("priority");
  load.add(victim());
  LoadJob urgent{.iteration = milliseconds(4), .in_flight = 2};
  urgent.options.priority = 1;
  load.add(urgent);
  load.run(kEnd);
  EXPECT_GT(load.result(2).busy, seconds(58));
  EXPECT_GT(load.result(1).iterations, 50u);
}

}  // namespace
}  // namespace laneway::simulation
