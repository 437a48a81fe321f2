// Shows that the jobs of a record are those that ran: when they came, what they ran and how long,
// what they hold; that running them again in virtual time gives the same times; and what a record
// cannot give.
#include "simulator/record_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "simulator/job_trace.h"
#include "simulator/simulator.h"
#include "tests/simulator/recorder.h"
#include "tests/support/scratch_folder.h"

namespace laneway::simulator {
namespace {

namespace trace = wire::trace;
using ::testing::HasSubstr;

class JobsOfRecord : public ::testing::Test {
 protected:
  // Runs the jobs in two lanes and records that.
  std::vector<JobResult> ran(const std::vector<SimJob>& jobs) {
    SimulatorConfig config;
    config.core.capacity = gib(1);
    config.core.set_lanes(2, 2);
    recorder_.records.clear();
    recorder_.note(TimePoint(), trace::CoreBegan{config.core, config.policy});
    config.observer = [this](TimePoint now, std::span<const lanes::Event> events,
                             std::span<const lanes::Action> actions) {
      recorder_.handled(now, events, actions);
    };
    Simulator simulator(config);
    for (const SimJob& job : jobs) simulator.add(job);
    EXPECT_TRUE(simulator.run());
    std::vector<JobResult> results;
    for (size_t i = 0; i < jobs.size(); ++i) results.push_back(simulator.result(i));
    return results;
  }

  laneway::testing::ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/record";
  Recorder recorder_;
};

std::vector<SimJob> some_jobs() {
  std::vector<SimJob> jobs(5);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    jobs[i].options.name = i == 0 ? "a,\"b\"" : "job";
    jobs[i].options.weight = 1 + static_cast<double>(i);
    jobs[i].submit = TimePoint() + milliseconds(100 + 30 * n);
    jobs[i].iteration = milliseconds(5 + n);
    jobs[i].iterations = 20 + 7 * i;
    jobs[i].persistent = mib(10 + n);
    jobs[i].ephemeral = mib(3 + n);
  }
  return jobs;
}

TEST_F(JobsOfRecord, AreThoseThatRan) {
  const std::vector<SimJob> jobs = some_jobs();
  const std::vector<JobResult> results = ran(jobs);
  recorder_.write(path_);
  EXPECT_TRUE(is_record(path_));
  const JobTrace read = read_trace(path_, {}).value();
  EXPECT_EQ(read.format, Format::record);
  EXPECT_TRUE(read.has_memory);
  EXPECT_EQ(read.idle, 0u);
  ASSERT_EQ(read.jobs.size(), jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(read.jobs[i].submit + milliseconds(100), jobs[i].submit) << i;
    EXPECT_EQ(read.jobs[i].iteration, jobs[i].iteration) << i;
    EXPECT_EQ(read.jobs[i].estimate, jobs[i].iteration) << i;
    EXPECT_EQ(read.jobs[i].iterations, jobs[i].iterations) << i;
    EXPECT_EQ(read.jobs[i].persistent, jobs[i].persistent) << i;
    EXPECT_EQ(read.jobs[i].ephemeral, jobs[i].ephemeral) << i;
    EXPECT_EQ(read.jobs[i].options.weight, jobs[i].options.weight) << i;
  }
  EXPECT_EQ(read.jobs[0].options.name, "job 1 a__b_");
  EXPECT_EQ(read.jobs[1].kind, "job");
  const std::vector<JobResult> again = ran(read.jobs);
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(again[i].ended - read.jobs[i].submit, results[i].ended - jobs[i].submit) << i;
  }
  EXPECT_EQ(read_trace(path_, {.estimates = Estimates::none}).value().jobs[0].estimate, Duration());
}

TEST_F(JobsOfRecord, AreKnownFromAReportAndHaveNoProbesInTheirTime) {
  lanes::WorkerReported reported;
  for (const uint64_t id : {7, 8}) {
    lanes::ReportedJob& job = reported.report.jobs.emplace_back();
    job.offer.job = JobId(id);
    job.offer.persistent = mib(5);
    job.offer.ephemeral = mib(1);
  }
  reported.report.jobs[0].lane = LaneId(1);
  reported.report.jobs[0].turn = TurnId(3);
  lanes::TurnEnded ended;
  ended.turn = TurnId(3);
  ended.iterations = 5;
  ended.busy = milliseconds(60);
  ended.probes = {1, milliseconds(20)};
  ended.ephemeral = mib(2);
  lanes::TurnEnded unknown;
  unknown.turn = TurnId(2);
  unknown.iterations = 50;
  recorder_.handled(TimePoint() + seconds(9), std::vector<lanes::Event>{reported}, {});
  recorder_.handled(TimePoint() + seconds(10), std::vector<lanes::Event>{ended, unknown}, {});
  recorder_.note(TimePoint() + seconds(11), trace::Lost{.records = 4, .iterations = 0});
  recorder_.write(path_);
  const JobTrace read = read_trace(path_, {}).value();
  ASSERT_EQ(read.jobs.size(), 1u);
  EXPECT_EQ(read.jobs[0].options.name, "job 7");
  EXPECT_EQ(read.jobs[0].iterations, 5u);
  EXPECT_EQ(read.jobs[0].iteration, milliseconds(10));
  EXPECT_EQ(read.jobs[0].ephemeral, mib(2));
  EXPECT_EQ(read.idle, 1u);
  EXPECT_EQ(read.lost, 4u);
}

TEST_F(JobsOfRecord, WhatARecordHasNotIsNamed) {
  recorder_.write(path_);
  EXPECT_THAT(read_trace(path_, {}).error().message, HasSubstr("has 0 jobs"));
  EXPECT_THAT(read_trace(path_, {.where = {{"gpu", "1"}}}).error().message,
              HasSubstr("--where gpu=1"));
  std::ofstream(path_, std::ios::binary | std::ios::app) << "x";
  EXPECT_THAT(read_trace(path_, {}).error().message, HasSubstr("offset"));
  const std::string csv = folder_.path() + "/jobs.csv";
  std::ofstream(csv) << "submit_time_s,iterations,iteration_ms\n0,1,1\n";
  EXPECT_FALSE(is_record(csv));
  EXPECT_FALSE(is_record(folder_.path() + "/none"));
  EXPECT_THAT(read_trace(csv, {.format = Format::record}).error().message,
              HasSubstr("does not begin as a trace"));
}

}  // namespace
}  // namespace laneway::simulator
