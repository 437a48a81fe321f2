// What laneway-simulate makes of its command line and of its results: bad values are named, JSON
// and CSV say what the run was.
#include "simulator/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/scratch_folder.h"

namespace laneway::simulator {
namespace {

using ::testing::HasSubstr;

Options options_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--trace", "t.csv"});
  const auto parsed = parse_options(arguments);
  EXPECT_TRUE(std::holds_alternative<Options>(parsed));
  return std::get<Options>(parsed);
}

std::string refusal_of(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] != "--alone") {
    arguments.insert(arguments.begin(), {"--trace", "t.csv"});
  } else {
    arguments.erase(arguments.begin());
  }
  const auto parsed = parse_options(arguments);
  if (!std::holds_alternative<Leave>(parsed)) return "";
  EXPECT_EQ(std::get<Leave>(parsed).code, kExitUsage);
  return std::get<Leave>(parsed).text;
}

std::vector<SimJob> two_jobs() {
  std::vector<SimJob> jobs(2);
  for (SimJob& job : jobs) {
    job.iterations = job.options.total_iterations = 100;
    job.iteration = job.estimate = milliseconds(10);
    job.persistent = mib(60);
  }
  jobs[0].options.name = "a";
  jobs[1].options.name = "b";
  jobs[1].submit = TimePoint() + milliseconds(100);
  return jobs;
}

TEST(SimulateOptions, AreReadAsGiven) {
  const Options options = options_of({"--policy",
                                      "fifo:share=no,fair:quantum_s=10",
                                      "--lanes",
                                      "4",
                                      "--memory",
                                      "16GiB",
                                      "--reserve",
                                      "300MiB",
                                      "--copy-bandwidth",
                                      "12000000000",
                                      "--seed",
                                      "7",
                                      "--estimates",
                                      "none",
                                      "--format",
                                      "philly",
                                      "--where",
                                      "num_gpus=1",
                                      "--where",
                                      "cluster=a=b",
                                      "--rows",
                                      "10:20",
                                      "--json",
                                      "o.json",
                                      "--csv",
                                      "o.csv"});
  EXPECT_EQ(options.policies, (std::vector<std::string>{"fifo:share=no", "fair:quantum_s=10"}));
  EXPECT_EQ(options.lanes, 4u);
  EXPECT_EQ(options.memory, gib(16));
  EXPECT_EQ(options.reserve, mib(300));
  EXPECT_EQ(options.copies.in, 12'000'000'000);
  EXPECT_EQ(options.copies.out, options.copies.in);
  EXPECT_FALSE(options.store.has_value());
  EXPECT_EQ(options.seed, 7u);
  EXPECT_EQ(options.choice.estimates, Estimates::none);
  EXPECT_EQ(options.choice.format, Format::philly);
  EXPECT_EQ(options.choice.where[0], std::make_pair(std::string("num_gpus"), std::string("1")));
  EXPECT_EQ(options.choice.where[1], std::make_pair(std::string("cluster"), std::string("a=b")));
  EXPECT_EQ(options.choice.first, 10u);
  EXPECT_EQ(options.choice.last, 20u);
  EXPECT_FALSE(options_of({"--rows", "5:"}).choice.last.has_value());
  const Options two = options_of({"--lanes", "2", "--pairs", "p.csv", "--open-lanes", "measured"});
  EXPECT_EQ(two.pairs, "p.csv");
  EXPECT_TRUE(two.measure_lanes);
  EXPECT_FALSE(options_of({"--pairs", "p.csv", "--open-lanes", "all"}).measure_lanes);
}

TEST(SimulateOptions, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal_of({"--alone"}), HasSubstr("--trace FILE or --generate JOBS is needed"));
  EXPECT_THAT(refusal_of({"--generate", "5"}), HasSubstr("and one of them"));
  EXPECT_THAT(refusal_of({"--alone", "--generate", "0"}), HasSubstr("--generate 0: give a whole"));
  EXPECT_THAT(refusal_of({"--save-trace", "x"}), HasSubstr("only generated jobs are written"));
  EXPECT_THAT(refusal_of({"--policy", "fifo,lottery"}), HasSubstr("--policy lottery: "));
  EXPECT_THAT(refusal_of({"--policy", "fifo,fifo"}), HasSubstr("stands there twice"));
  EXPECT_THAT(refusal_of({"--policy", "fifo,"}), HasSubstr("--policy \"\""));
  EXPECT_THAT(refusal_of({"--lanes", "65"}), HasSubstr("--lanes 65: give a whole number from 1"));
  EXPECT_THAT(refusal_of({"--memory", "many"}), HasSubstr("--memory many"));
  EXPECT_THAT(refusal_of({"--memory", "0"}), HasSubstr("--memory 0: give more"));
  EXPECT_THAT(refusal_of({"--memory", "1GiB", "--reserve", "1GiB"}), HasSubstr("--reserve 1GiB"));
  EXPECT_THAT(refusal_of({"--reserve", "1GiB"}), HasSubstr("a part of --memory"));
  EXPECT_THAT(refusal_of({"--estimates", "some"}), HasSubstr("give trace or none"));
  EXPECT_THAT(refusal_of({"--format", "borg"}), HasSubstr("--format borg: give laneway, philly"));
  EXPECT_THAT(refusal_of({"--where", "gpus"}), HasSubstr("--where gpus: give COLUMN=VALUE"));
  EXPECT_THAT(refusal_of({"--rows", "7"}), HasSubstr("--rows 7: give A:B"));
  EXPECT_THAT(refusal_of({"--rows", "7:7"}), HasSubstr("--rows 7: give a whole number from 8"));
  EXPECT_THAT(refusal_of({"--seed", "-1"}), HasSubstr("--seed -1"));
  EXPECT_THAT(refusal_of({"--gpus", "4"}), HasSubstr("--gpus"));
  EXPECT_THAT(refusal_of({"--pairs", "p.csv", "--lanes", "3"}), HasSubstr("give 2 at most"));
  EXPECT_THAT(refusal_of({"--open-lanes", "measured"}),
              HasSubstr("without --pairs or --calibration lanes are equal servers"));
  EXPECT_THAT(refusal_of({"--open-lanes", "few"}), HasSubstr("give all or measured"));
}

TEST(Simulate, WithoutMemoryNothingEverWaitsForIt) {
  const Options options = options_of({"--lanes", "2"});
  const PolicyRun run = run_policy(options, "fifo", two_jobs()).value();
  EXPECT_DOUBLE_EQ(run.summary.average_jct_s.value(), 1);
  EXPECT_DOUBLE_EQ(run.summary.average_wait_s.value(), 0);
  EXPECT_DOUBLE_EQ(run.summary.makespan_s.value(), 1.1);
}

TEST(Simulate, ItsResultsAreThereAsJsonAndAsALineAJob) {
  const Options options = options_of({"--memory", "100MiB", "--policy", "fifo:share=no,sjf"});
  const std::vector<SimJob> jobs = two_jobs();
  const std::vector<PolicyRun> runs = {
      run_policy(options_of({"--memory", "100MiB", "--store", "0"}), "fifo:share=no", jobs)
          .value()};
  const auto json = nlohmann::json::parse(json_of(options, runs));
  const auto& row = json["policies"]["fifo:share=no"];
  EXPECT_EQ(row["jobs"], 2);
  EXPECT_EQ(row["refused"], 0);
  EXPECT_DOUBLE_EQ(row["average_jct_s"], (1.0 + 1.9) / 2);
  EXPECT_DOUBLE_EQ(row["p50_jct_s"], 1.0);
  EXPECT_DOUBLE_EQ(row["p99_jct_s"], 1.9);
  EXPECT_DOUBLE_EQ(row["makespan_s"], 2.0);
  EXPECT_DOUBLE_EQ(row["average_wait_s"], 0.45);
  EXPECT_EQ(row["evictions"], 0);
  EXPECT_EQ(row["turns"], 3) << "the first is asked once whether it has work";
  EXPECT_EQ(json["memory_bytes"], mib(100).count());
  EXPECT_EQ(json["lanes"], 1);
  EXPECT_EQ(json["open_lanes"], "all");
  EXPECT_THAT(csv_of(jobs, runs),
              HasSubstr("\nfifo:share=no,b,0.100000000,1.000000000,1.000000000,2.000000000,"
                        "1.900000000,0.900000000,1.000000000,100,0,0,0,1\n"));
  EXPECT_THAT(table_of(runs), HasSubstr("fifo:share=no"));
  const std::string timeline = timeline_csv_of(runs);
  EXPECT_THAT(timeline, HasSubstr("\nfifo:share=no,1,0.000000000,0.004000000,1.000,62914624\n"));
  EXPECT_THAT(timeline, HasSubstr(",2.000000000,1.000,"));
}

TEST(Simulate, WhatThereIsNotIsNullAndEmpty) {
  std::vector<SimJob> jobs = two_jobs();
  jobs.resize(1);
  jobs[0].persistent = gib(1);
  const Options options = options_of({"--memory", "100MiB"});
  const std::vector<PolicyRun> runs = {run_policy(options, "fifo", jobs).value()};
  const auto json = nlohmann::json::parse(json_of(options, runs));
  EXPECT_EQ(json["policies"]["fifo"]["refused"], 1);
  EXPECT_TRUE(json["policies"]["fifo"]["average_jct_s"].is_null());
  EXPECT_TRUE(nlohmann::json::parse(json_of(options_of({}), {}))["memory_bytes"].is_null());
  EXPECT_THAT(csv_of(jobs, runs), HasSubstr("\nfifo,a,0.000000000,,,,,"));
}

TEST(Simulate, MemoryIsNoMatterOfATraceThatSaysNothingOfIt) {
  const laneway::testing::ScratchFolder folder;
  const std::string path = folder.path() + "/jobs.csv";
  ASSERT_TRUE(write_file(path, "submit_time_s,iterations,iteration_ms\n0,1,1\n"));
  Options options = options_of({"--memory", "1GiB"});
  options.trace = path;
  EXPECT_THAT(read_jobs(options).error().message, HasSubstr("does not say what its jobs hold"));
  options.memory.reset();
  EXPECT_EQ(read_jobs(options).value().jobs.size(), 1u);
}

// The trace whose shape they are to have: 100 jobs, 18,204 s of work, the last one comes at 902 s.
TEST(Simulate, GeneratedJobsComeFromTheSeedAloneAndHaveTheShapeOfSalus) {
  const laneway::testing::ScratchFolder folder;
  Options options = std::get<Options>(parse_options({"--generate", "10000", "--seed", "5"}));
  options.save_trace = folder.path() + "/jobs.csv";
  const std::vector<SimJob> jobs = read_jobs(options).value().jobs;
  ASSERT_EQ(jobs.size(), 10'000u);
  double work_s = 0;
  size_t short_ones = 0;
  for (const SimJob& job : jobs) {
    const double length_s = job.iteration.seconds() * static_cast<double>(job.iterations);
    work_s += length_s;
    short_ones += length_s < 80;
    EXPECT_GT(job.persistent, mib(70));
    EXPECT_LT(job.persistent + job.ephemeral, gib(15));
  }
  EXPECT_NEAR(work_s / 10'000, 182, 10);
  EXPECT_NEAR(static_cast<double>(short_ones) / 10'000, 0.5, 0.02);
  EXPECT_NEAR((jobs.back().submit - TimePoint()).seconds() / work_s, 0.05, 0.001);

  TraceChoice choice;
  const std::vector<SimJob> again = read_trace(options.save_trace, choice).value().jobs;
  ASSERT_EQ(again.size(), jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_EQ(again[i].submit, jobs[i].submit);
    ASSERT_EQ(again[i].iterations, jobs[i].iterations);
    ASSERT_EQ(again[i].persistent, jobs[i].persistent);
  }
  options.seed = 6;
  EXPECT_NE(read_jobs(options).value().jobs[0].iterations, jobs[0].iterations);
}

TEST(Simulate, AFileIsWrittenWholeOrNamed) {
  const laneway::testing::ScratchFolder folder;
  const std::string path = folder.path() + "/out.json";
  ASSERT_TRUE(write_file(path, "{}\n"));
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "{}\n");
  const Status status = write_file(folder.path() + "/no/such/out.json", "{}");
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("/no/such/out.json' cannot be written"));
}

}  // namespace
}  // namespace laneway::simulator
