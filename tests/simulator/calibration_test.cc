// Shows what a calibration does to a simulation, and that one of another machine or version, one in
// which any byte of what was measured changed, and one that does not fit the jobs is refused with
// what is wrong and what to do.
#include "simulator/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "simulator/options.h"
#include "simulator/simulation.h"

namespace laneway::simulator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Machine kHere{.cpu = "A processor", .cores = 2, .version = "1.2.3"};

// As the Python side writes it, check sum included, which was computed there.
constexpr const char* kMeasured =
    R"({"copy_in_bytes_per_s":1000000000,"copy_out_bytes_per_s":500000000,)"
    R"("date":"2020-01-01T00:00:00+00:00","machine":{"cores":2,"cpu":"A processor"},)"
    R"("models":{"cnn":{"iteration_ns":2000000},"gpt":{"iteration_ns":10000000}},)"
    R"("pairs":[{"a":"cnn","a_iteration_ns":4000000,"b":"cnn","b_iteration_ns":4000000},)"
    R"({"a":"cnn","a_iteration_ns":2500000,"b":"gpt","b_iteration_ns":20000000},)"
    R"({"a":"gpt","a_iteration_ns":10000000,"b":"gpt","b_iteration_ns":10000000}],)"
    R"("start_up_ns":3000000,"torch":"2.11.0","turn_gap_ns":100000,"version":"1.2.3"})";
constexpr const char* kSum = "6ad562e2";

std::string file_with(const std::string& measured, const std::string& sum = kSum) {
  return R"({"laneway_calibration": 1, "check_sum": ")" + sum + R"(", "measured": )" + measured +
         "}\n";
}

std::string refusal_of(const std::string& text, const Machine& here = kHere) {
  const auto found = calibration_of("c.json", text, here);
  return found ? "it was taken" : found.error().message;
}

SimJob job_of(const std::string& kind) {
  SimJob job;
  job.iterations = 3;
  job.options.name = "j";
  job.kind = kind;
  return job;
}

std::vector<SimJob> trace_of_five() {
  Options options;
  options.generate = 5;
  return read_jobs(options).value().jobs;
}

TEST(Calibration, EachJobGetsTheTimeOfItsModelAndPairsTheirSpeeds) {
  const auto found = calibration_of("c.json", file_with(kMeasured), kHere);
  ASSERT_TRUE(found) << found.error().message;
  const Calibration& all = found.value();
  EXPECT_EQ(all.turn_gap, microseconds(100));
  EXPECT_EQ(all.start_up, milliseconds(3));
  EXPECT_EQ(all.copies.in, 1'000'000'000);
  EXPECT_EQ(all.copies.out, 500'000'000);
  std::vector<SimJob> jobs = {job_of("gpt"), job_of("cnn")};
  ASSERT_TRUE(all.apply(jobs));
  EXPECT_EQ(jobs[0].iteration, milliseconds(10));
  EXPECT_EQ(jobs[1].iteration, milliseconds(2));
  const auto rule = all.pairs.rule(jobs);
  ASSERT_TRUE(rule) << rule.error().message;
  std::vector<double> speeds(2);
  rule.value()(std::vector<size_t>{0, 1}, speeds);
  EXPECT_DOUBLE_EQ(speeds[0], 0.5);
  EXPECT_DOUBLE_EQ(speeds[1], 0.8);
}

TEST(Calibration, OneOfAnotherMachineOrVersionIsRefused) {
  for (const Machine& other : {Machine{.cpu = "Another", .cores = 2, .version = "1.2.3"},
                               Machine{.cpu = "A processor", .cores = 4, .version = "1.2.3"},
                               Machine{.cpu = "A processor", .cores = 2, .version = "1.2.4"}}) {
    EXPECT_THAT(refusal_of(file_with(kMeasured), other),
                AllOf(HasSubstr("c.json is of another machine or version"),
                      HasSubstr("A processor, 2 cores, Laneway 1.2.3"),
                      HasSubstr("measure again with `laneway calibrate`")));
  }
}

TEST(Calibration, NoDigitOfItMayChange) {
  const std::string whole = kMeasured;
  int digits = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] < '0' || whole[i] > '8') continue;
    std::string changed = whole;
    ++changed[i];
    EXPECT_THAT(refusal_of(file_with(changed)), HasSubstr("was changed or cut")) << i;
    ++digits;
  }
  EXPECT_GT(digits, 30);
}

TEST(Calibration, WhatIsNoneIsNamed) {
  EXPECT_THAT(refusal_of(""), HasSubstr("c.json is no calibration, or a damaged one"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("laneway_calibration"));
  const std::string whole = file_with(kMeasured);
  EXPECT_THAT(refusal_of(whole.substr(0, whole.size() / 2)), HasSubstr("or a damaged one"));
  EXPECT_THAT(refusal_of(R"({"laneway_calibration": 7})"),
              HasSubstr("of form 7, and this version reads form 1"));
  EXPECT_THAT(read_calibration("/nothing/here.json").error().message, HasSubstr("cannot be read"));
}

TEST(Calibration, AJobOfAModelThatWasNotMeasuredIsNamed) {
  const auto found = calibration_of("c.json", file_with(kMeasured), kHere);
  ASSERT_TRUE(found);
  std::vector<SimJob> jobs = {job_of("bert")};
  EXPECT_THAT(found.value().apply(jobs).error().message,
              AllOf(HasSubstr("job j is of the model bert"), HasSubstr("cnn, gpt")));
  jobs = {job_of("")};
  EXPECT_THAT(found.value().apply(jobs).error().message, HasSubstr("job j has no model_name"));
}

TEST(Calibration, GeneratedJobsGetItsTimesOrAreRefusedToo) {
  auto found = calibration_of("c.json", file_with(kMeasured), kHere);
  ASSERT_TRUE(found);
  Options options;
  options.generate = 5;
  options.calibration = std::move(found).value();
  EXPECT_THAT(read_jobs(options).error().message, HasSubstr("measured were cnn, gpt"));
  options.calibration->iterations.clear();
  for (const SimJob& job : trace_of_five()) {
    options.calibration->iterations.emplace(job.kind, milliseconds(7));
  }
  const auto jobs = read_jobs(options);
  ASSERT_TRUE(jobs) << jobs.error().message;
  for (const SimJob& job : jobs.value().jobs) EXPECT_EQ(job.iteration, milliseconds(7));
}

TEST(Calibration, WhatItSaysMayNotBeSaidAgain) {
  for (const char* option : {"--turn-gap", "--copy-bandwidth", "--pairs"}) {
    const auto parsed = parse_options({"--trace", "t.csv", "--calibration", "c.json", option, "1"});
    const auto* leave = std::get_if<Leave>(&parsed);
    ASSERT_NE(leave, nullptr) << option;
    EXPECT_EQ(leave->code, kExitUsage);
    EXPECT_THAT(leave->text,
                AllOf(HasSubstr(option), HasSubstr("--calibration says that already")));
  }
}

// A job alone: its submission, what an offer takes, its image's way, the gap before the turn, and
// its iterations.
TEST(Calibration, OfAJobAloneTheTimeIsTheSumOfItsParts) {
  const auto found = calibration_of("c.json", file_with(kMeasured), kHere);
  ASSERT_TRUE(found);
  std::vector<SimJob> jobs = {job_of("gpt")};
  jobs[0].persistent = Bytes(100'000'000);
  ASSERT_TRUE(found.value().apply(jobs));
  Options options;
  options.turn_gap = found.value().turn_gap;
  options.start_up = found.value().start_up;
  options.copies = found.value().copies;
  const auto run = run_policy(options, "fifo", jobs, {});
  ASSERT_TRUE(run) << run.error().message;
  const Duration parts = milliseconds(3) + milliseconds(100) + microseconds(100) + milliseconds(30);
  EXPECT_EQ(run.value().results[0].ended - TimePoint(), parts);
}

}  // namespace
}  // namespace laneway::simulator
