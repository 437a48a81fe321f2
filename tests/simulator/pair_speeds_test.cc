// Speeds of two jobs beside each other, from a file: what the simulated device does with them, and
// what a file is told that is wrong.
#include "simulator/pair_speeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "simulator/simulation.h"

namespace laneway::simulator {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader = "job_a,job_b,norm_a,norm_b\n";
// Two of `small` run at full speed, two of `large` are slower than in turns.
constexpr const char* kPairs =
    "small,small,1,1\n"
    "large,small,0.5,0.75\n"
    "large,large,0.25,0.25\n";

PairSpeeds pairs_of(const std::string& lines) {
  return PairSpeeds::of(Table::parse("p.csv", kHeader + lines).value()).value();
}

std::string refusal_of(const std::string& lines) {
  const auto pairs = PairSpeeds::of(Table::parse("p.csv", kHeader + lines).value());
  return pairs ? "" : pairs.error().message;
}

// Trainings of 100 s each.
std::vector<SimJob> jobs_of(const std::vector<std::string>& kinds) {
  std::vector<SimJob> jobs(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    jobs[i].kind = kinds[i];
    jobs[i].options.name = "job" + std::to_string(i);
    jobs[i].iterations = jobs[i].options.total_iterations = 1000;
    jobs[i].iteration = jobs[i].estimate = milliseconds(100);
  }
  return jobs;
}

double makespan_of(const std::vector<std::string>& kinds, const std::string& lines, bool measured) {
  Options options;
  options.lanes = 2;
  options.measure_lanes = measured;
  const std::vector<SimJob> jobs = jobs_of(kinds);
  const SpeedRule rule = pairs_of(lines).rule(jobs).value();
  return run_policy(options, "fifo", jobs, rule).value().summary.makespan_s.value();
}

TEST(PairSpeeds, EachOfTwoHasItsOwnSpeedWhicheverLaneItIsIn) {
  const std::vector<SimJob> jobs = jobs_of({"small", "large"});
  const SpeedRule rule = pairs_of(kPairs).rule(jobs).value();
  const auto speeds_of = [&](std::vector<size_t> computing) {
    std::vector<double> speeds(computing.size(), 1);
    rule(computing, speeds);
    return speeds;
  };
  EXPECT_EQ(speeds_of({0}), (std::vector<double>{1}));
  EXPECT_EQ(speeds_of({0, 1}), (std::vector<double>{0.75, 0.5}));
  EXPECT_EQ(speeds_of({1, 0}), (std::vector<double>{0.5, 0.75}));
}

TEST(PairSpeeds, TheDeviceIsAsFastAsTheyAre) {
  EXPECT_NEAR(makespan_of({"small", "small"}, kPairs, false), 100, 0.2);
  // The small one ends after 133.3 s, in which the large one has done two thirds.
  EXPECT_NEAR(makespan_of({"small", "large"}, kPairs, false), 133.333 + 33.333, 0.5);
  EXPECT_NEAR(makespan_of({"large", "large"}, kPairs, false), 400, 0.5);
}

TEST(PairSpeeds, LanesThatAreMeasuredStayOneWhereTwoDoNotPay) {
  EXPECT_NEAR(makespan_of({"large", "large"}, kPairs, true), 200, 10);
  EXPECT_NEAR(makespan_of({"small", "small"}, kPairs, true), 100, 5);
}

TEST(PairSpeeds, WhatNeverRunsBesideEachOtherGetsHalfOfTheTime) {
  EXPECT_NEAR(makespan_of({"large", "large"}, "large,large,0,0\n", false), 200, 0.5);
}

TEST(PairSpeeds, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal_of("a,b,1,fast\n"), HasSubstr("p.csv, line 2, column norm_b: 'fast'"));
  EXPECT_THAT(refusal_of("a,b,-1,1\n"), HasSubstr("line 2, column norm_a: '-1' is no speed"));
  EXPECT_THAT(refusal_of("a,b,1,inf\n"), HasSubstr("column norm_b: 'inf' is no speed"));
  EXPECT_THAT(refusal_of("a,b,1,nan\n"), HasSubstr("column norm_b: 'nan' is no speed"));
  EXPECT_THAT(refusal_of("a,b,1,\n"), HasSubstr("column norm_b: '' is no speed"));
  EXPECT_THAT(refusal_of("a,b,0,1\n"), HasSubstr("the other one never would"));
  EXPECT_THAT(refusal_of("a,b,1,1\nb,a,1,1\n"),
              HasSubstr("line 3, column job_b: the pair of b and a stands there twice"));
  EXPECT_THAT(PairSpeeds::of(Table::parse("p.csv", "job_a,job_b\na,b\n").value()).error().message,
              HasSubstr("norm_a"));
}

TEST(PairSpeeds, ATraceOfOtherKindsIsRefused) {
  const PairSpeeds pairs = pairs_of(kPairs);
  EXPECT_THAT(pairs.rule(jobs_of({"small", "gpt"})).error().message,
              HasSubstr("p.csv has no speeds of gpt beside gpt"));
  EXPECT_THAT(pairs.rule(jobs_of({"small", ""})).error().message,
              HasSubstr("job job1 has no model_name"));
}

}  // namespace
}  // namespace laneway::simulator
