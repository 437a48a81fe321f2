// Shows where jobs go when there are several devices, and that what is told is of all of them; that
// iteration times are drawn from the seed around the trace's; and that the core's times and limits
// are set by name.
#include "simulator/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "simulator/core_settings.h"
#include "simulator/simulation.h"

namespace laneway::simulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SimJob job_of(int64_t submit_s, int64_t length_s, Bytes memory = mib(1)) {
  SimJob job;
  job.submit = TimePoint() + seconds(submit_s);
  job.iteration = job.estimate = milliseconds(100);
  job.iterations = job.options.total_iterations = static_cast<uint64_t>(length_s * 10);
  job.persistent = memory;
  return job;
}

Options options_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--trace", "t.csv"});
  const auto parsed = parse_options(arguments);
  const auto* leave = std::get_if<Leave>(&parsed);
  EXPECT_EQ(leave, nullptr) << leave->text;
  return std::get<Options>(parsed);
}
std::string refusal_of(std::vector<std::string> arguments) {
  const auto parsed = parse_options(arguments);
  const auto* leave = std::get_if<Leave>(&parsed);
  return leave == nullptr || leave->code != kExitUsage ? "" : leave->text;
}

TEST(Devices, EachJobGoesWhereTheLeastWorkIsLeft) {
  const std::vector<SimJob> jobs = {job_of(0, 100), job_of(0, 30),  job_of(10, 5),
                                    job_of(10, 50), job_of(40, 10), job_of(29, 1)};
  // At 10 s device 2 has 20 s left; with 5 more it has the least still, and at 29 s it has 56 left
  // and the other 71; at 40 s 46 and 60.
  EXPECT_THAT(devices_of(jobs, {.count = 2, .lanes = 1, .room = gib(1)}),
              ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(devices_of(jobs, {.count = 3, .lanes = 1, .room = gib(1)}),
              ElementsAre(0, 1, 2, 2, 1, 1));
}

TEST(Devices, LanesDoTheirWorkBesideEachOther) {
  // With two lanes device 1 has done both at 40 s, and with one the second of them only then
  // begins.
  const std::vector<SimJob> jobs = {job_of(0, 40), job_of(0, 90), job_of(0, 40), job_of(41, 10)};
  EXPECT_THAT(devices_of(jobs, {.count = 2, .lanes = 2, .room = gib(1)}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(devices_of(jobs, {.count = 2, .lanes = 1, .room = gib(1)}), ElementsAre(0, 1, 0, 0));
  const std::vector<SimJob> long_one = {job_of(0, 40), job_of(0, 60), job_of(0, 40),
                                        job_of(41, 10)};
  EXPECT_THAT(devices_of(long_one, {.count = 2, .lanes = 1, .room = gib(1)}),
              ElementsAre(0, 1, 0, 1));
}

TEST(Devices, WhoFitsNoneIsNoWork) {
  const std::vector<SimJob> jobs = {job_of(0, 1'000, gib(2)), job_of(1, 10), job_of(2, 10)};
  EXPECT_THAT(devices_of(jobs, {.count = 2, .lanes = 1, .room = gib(1)}), ElementsAre(0, 0, 1));
}

TEST(Devices, ResultsAreOfAllOfThem) {
  const std::vector<SimJob> jobs = {job_of(0, 10), job_of(0, 10), job_of(0, 20),
                                    job_of(0, 1, gib(2))};
  const Options one = options_of({"--memory", "1GiB"});
  const Options two = options_of({"--memory", "1GiB", "--devices", "2"});
  const PolicyRun apart = run_policy(two, "fifo:age=off", jobs).value();
  EXPECT_EQ(apart.summary.jobs, 4u);
  EXPECT_EQ(apart.summary.refused, 1u);
  EXPECT_DOUBLE_EQ(apart.summary.makespan_s.value(), 30);
  EXPECT_DOUBLE_EQ(apart.summary.average_jct_s.value(), (10.0 + 10 + 30) / 3);
  EXPECT_EQ(apart.results[0].device, 1u);
  EXPECT_EQ(apart.results[1].device, 2u);
  EXPECT_DOUBLE_EQ(run_policy(one, "fifo:age=off", jobs).value().summary.makespan_s.value(), 40);
  uint64_t turns = 0;
  for (const size_t device : {1, 2}) {
    std::vector<SimJob> own;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (apart.results[i].device == device) own.push_back(jobs[i]);
    }
    turns += run_policy(one, "fifo:age=off", own).value().summary.counts.turns;
  }
  EXPECT_EQ(apart.summary.counts.turns, turns);
  const auto json = nlohmann::json::parse(json_of(two, {apart}));
  EXPECT_EQ(json["devices"], 2);
  EXPECT_THAT(csv_of(jobs, {apart}), HasSubstr(",0,2\n"));
}

// Two kinds of jobs that slow each other down, of which each device gets its own.
TEST(Devices, SpeedsAreOfTheJobsOfTheDevice) {
  const std::vector<SimJob> jobs = {job_of(0, 10), job_of(0, 19), job_of(0, 10), job_of(0, 19)};
  const SpeedRule rule = [](std::span<const size_t> beside, std::span<double> speeds) {
    for (const size_t job : beside) EXPECT_EQ(job % 2, beside[0] % 2);
    if (beside.size() == 2) speeds[0] = speeds[1] = 0.5;
  };
  const Options options = options_of({"--devices", "2", "--lanes", "2"});
  const PolicyRun run = run_policy(options, "fifo", jobs, rule).value();
  EXPECT_EQ(run.results[2].device, 1u);
  EXPECT_EQ(run.results[3].device, 2u);
  EXPECT_EQ(run.results[0].ended, TimePoint() + seconds(20));
  EXPECT_EQ(run.results[3].ended, TimePoint() + seconds(38));
}

TEST(Jitter, TimesAreDrawnAroundTheMeanFromTheSeed) {
  std::vector<SimJob> jobs;
  for (int64_t i = 0; i < 40; ++i) jobs.push_back(job_of(0, 10));
  const auto run = [&](const std::string& jitter, const std::string& seed,
                       const std::string& policy) {
    return run_policy(options_of({"--jitter", jitter, "--seed", seed}), policy, jobs).value();
  };
  const PolicyRun exact = run("0", "1", "fifo");
  const PolicyRun one = run("0.2", "1", "fifo");
  const PolicyRun again = run("0.2", "1", "fifo");
  const PolicyRun other = run("0.2", "2", "fifo");
  EXPECT_DOUBLE_EQ(exact.summary.makespan_s.value(), 400);
  EXPECT_EQ(csv_of(jobs, {one}), csv_of(jobs, {again}));
  EXPECT_NE(csv_of(jobs, {one}), csv_of(jobs, {other}));
  Duration sum;
  Duration least = Duration(INT64_MAX);
  Duration most;
  for (const JobResult& result : one.results) {
    EXPECT_EQ(result.iterations, 100u);
    sum += result.busy;
    least = std::min(least, result.busy);
    most = std::max(most, result.busy);
  }
  EXPECT_GE(least, seconds(8));
  EXPECT_LE(most, seconds(12));
  EXPECT_LT(least, milliseconds(9'500));
  EXPECT_GT(most, milliseconds(10'500));
  EXPECT_NEAR(sum.seconds(), 400, 20);
  // What is drawn for a job does not depend on the policy.
  jobs.resize(1);
  EXPECT_EQ(run("0.2", "1", "srtf").results[0].ended, run("0.2", "1", "fifo").results[0].ended);
}

TEST(CoreSettings, ChangeWhatTheyName) {
  lanes::SchedulerConfig config;
  for (const char* text :
       {"budget=3", "slice_s=0.5", "longest_slice_s=100", "patience_s=0.25", "left_alone_s=1",
        "lingers_s=0", "idle_before_saving_s=7", "merge_after_s=8", "merge_all_after_s=9",
        "trial_after_s=10", "trial_least_s=11", "trial_again_s=12"}) {
    EXPECT_TRUE(apply_setting(text, config)) << text;
    EXPECT_THAT(setting_keys(),
                HasSubstr(std::string(text).substr(0, std::string(text).find('='))));
  }
  EXPECT_EQ(config.budget.iterations, 3u);
  EXPECT_EQ(config.budget.slice, milliseconds(500));
  EXPECT_EQ(config.longest_slice, seconds(100));
  EXPECT_EQ(config.patience, milliseconds(250));
  EXPECT_EQ(config.left_alone, seconds(1));
  EXPECT_EQ(config.lingers, Duration());
  EXPECT_EQ(config.idle_before_saving, seconds(7));
  EXPECT_EQ(config.merge_after, seconds(8));
  EXPECT_EQ(config.merge_all_after, seconds(9));
  EXPECT_EQ(config.lane_limit.after, seconds(10));
  EXPECT_EQ(config.lane_limit.least, seconds(11));
  EXPECT_EQ(config.lane_limit.again, seconds(12));
}

// Policies cannot name a longer slice than the core allows.
TEST(CoreSettings, ReachTheCore) {
  const std::vector<SimJob> jobs = {job_of(0, 600), job_of(0, 600)};
  const auto turns = [&](std::vector<std::string> words) {
    const PolicyRun run =
        run_policy(options_of(std::move(words)), "fair:quantum_s=200:age=off", jobs).value();
    return run.summary.counts.turns;
  };
  EXPECT_LT(turns({"--set", "longest_slice_s=200"}), turns({}));
  const auto json =
      nlohmann::json::parse(json_of(options_of({"--set", "budget=2", "--set", "slice_s=1"}), {}));
  EXPECT_EQ(json["set"], nlohmann::json::array({"budget=2", "slice_s=1"}));
}

TEST(SimulateOptions, WhatIsWrongWithDevicesChanceAndSettingsIsNamed) {
  const auto refusal = [](const char* option, const char* value) {
    return refusal_of({"--trace", "t.csv", option, value});
  };
  EXPECT_THAT(refusal("--devices", "0"),
              HasSubstr("--devices 0: give a whole number from 1 to 64"));
  EXPECT_THAT(refusal("--devices", "65"), HasSubstr("--devices 65"));
  EXPECT_THAT(refusal("--jitter", "1"), HasSubstr("--jitter 1: give a part from 0 to 0.9"));
  EXPECT_THAT(refusal("--jitter", "nan"), HasSubstr("--jitter nan"));
  EXPECT_THAT(refusal("--jitter", "-0.1"), HasSubstr("--jitter -0.1"));
  EXPECT_THAT(refusal("--set", "speed=3"), HasSubstr("--set speed=3: give KEY=VALUE, with a key"));
  EXPECT_THAT(refusal("--set", "budget"), HasSubstr("--set budget: give KEY=VALUE"));
  EXPECT_THAT(refusal("--set", "budget=1.5"), HasSubstr("a whole number of iterations"));
  EXPECT_THAT(refusal("--set", "patience_s=-1"), HasSubstr("give seconds from 0 to"));
  EXPECT_THAT(refusal("--set", "patience_s=much"), HasSubstr("give seconds from 0 to"));
  EXPECT_THAT(refusal_of({"--trace", "t.csv", "--set", "budget=0", "--set", "slice_s=0"}),
              HasSubstr("needs a bound"));
  EXPECT_THAT(refusal_of({"--replay", "r", "--lanes", "2"}),
              HasSubstr("--replay r: a record is repeated as it is"));
  EXPECT_EQ(std::get<Options>(parse_options({"--replay", "r"})).replay, "r");
}

}  // namespace
}  // namespace laneway::simulator
