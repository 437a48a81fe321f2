// Traces of jobs: numbers come in exactly, and whatever is wrong is named by file, line and column.
#include "simulator/job_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/decimal.h"

namespace laneway::simulator {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader = "job_id,submit_time_s,iterations,iteration_ms,persistent_mb\n";

std::string error_of(const std::string& text) {
  const auto table = Table::parse("t.csv", text);
  if (!table) return table.error().message;
  const auto trace = trace_of(table.value(), {});
  return trace ? "" : trace.error().message;
}

JobTrace trace(const std::string& text, const TraceChoice& choice = {}) {
  return trace_of(Table::parse("t.csv", text).value(), choice).value();
}

std::vector<SimJob> read(const std::string& text, Estimates estimates = Estimates::trace) {
  return trace(text, {.where = {}, .estimates = estimates}).jobs;
}

TEST(Decimal, IsExactWhereAFloatingPointNumberIsNot) {
  EXPECT_EQ(scaled_decimal("59.3", 1'000'000), 59'300'000);
  EXPECT_EQ(scaled_decimal("0.1", 1'000'000'000), 100'000'000);
  EXPECT_EQ(scaled_decimal("11214506.123456789", 1'000'000'000), 11'214'506'123'456'789);
  EXPECT_EQ(scaled_decimal("71.7", 1 << 20), 75'182'899) << "71.7 x 2^20 = 75182899.2";
  EXPECT_EQ(scaled_decimal("0.00000000049", 1'000'000'000), 0);
  EXPECT_EQ(scaled_decimal("0.5", 1), 1) << "halves up";
  EXPECT_EQ(scaled_decimal("-2.25", 1000), -2250);
  EXPECT_EQ(scaled_decimal("7.", 10), 70);
}

TEST(Decimal, WhatIsNoNumberIsNone) {
  for (const char* text : {"", "-", ".5", "1e3", "nan", "1.2.3", "0x1", " 1", "99999999999999"}) {
    EXPECT_EQ(scaled_decimal(text, 1'000'000'000), std::nullopt) << text;
  }
}

TEST(JobTrace, ReadsJobsWithWhatTheirColumnsSay) {
  const auto jobs = read(
      "job_id,submit_time_s,iterations,iteration_ms,persistent_mb,ephemeral_mb,estimate_ms,"
      "priority,weight,deadline_s,job_class,host_gap_ms\r\n"
      "a,0,7708,59.3,71.7,1324.7,60,3,2.5,100,inference,50\r\n\n"
      "b,0.5,1,0.000001,0,0,,,,,,\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].options.name, "a");
  EXPECT_EQ(jobs[1].submit, TimePoint(500'000'000));
  EXPECT_EQ(jobs[0].iterations, 7708u);
  EXPECT_EQ(jobs[0].options.total_iterations, 7708u);
  EXPECT_EQ(jobs[0].iteration, Duration(59'300'000));
  EXPECT_EQ(jobs[0].estimate, milliseconds(60));
  EXPECT_EQ(jobs[0].persistent, Bytes(75'182'899));
  EXPECT_EQ(jobs[0].options.priority, 3);
  EXPECT_EQ(jobs[0].options.weight, 2.5);
  EXPECT_EQ(jobs[0].options.deadline, seconds(100));
  EXPECT_EQ(jobs[0].options.job_class, JobClass::inference);
  EXPECT_EQ(jobs[0].gap, milliseconds(50));
  EXPECT_EQ(jobs[1].estimate, jobs[1].iteration) << "a client knows what its iterations take";
  EXPECT_EQ(jobs[1].options.weight, 1);
  EXPECT_EQ(jobs[1].gap, Duration());
}

TEST(JobTrace, WithoutEstimatesNobodySaysWhatAnIterationTakes) {
  const auto jobs = read(std::string(kHeader) + "a,0,5,10,1\n", Estimates::none);
  EXPECT_EQ(jobs[0].estimate, Duration());
  EXPECT_EQ(jobs[0].options.total_iterations, 5u);
}

TEST(JobTrace, WhatIsWrongIsNamedByLineAndColumn) {
  const auto with = [](const char* line) { return error_of(std::string(kHeader) + line); };
  EXPECT_THAT(with("a,-1,5,10,1\n"), HasSubstr("t.csv, line 2, column submit_time_s: -1"));
  EXPECT_THAT(with("a,0,5,10,1\nb,0,five,10,1\n"),
              HasSubstr("t.csv, line 3, column iterations: 'five'"));
  EXPECT_THAT(with("a,0,0,10,1\n"), HasSubstr("column iterations: 0 is too small"));
  EXPECT_THAT(with("a,0,5,0,1\n"), HasSubstr("column iteration_ms: 0 is too small"));
  EXPECT_THAT(with("a,0,5,10\n"), HasSubstr("line 2: 4 fields, and the header has 5"));
  EXPECT_THAT(with("a,0,\"5\",10,1\n"), HasSubstr("line 2: quotes"));
  EXPECT_THAT(with("a,0,900000000000000,99999,1\n"), HasSubstr("longer than 73 years"));
  EXPECT_THAT(with(""), HasSubstr("has 0 jobs that are wanted"));
  EXPECT_THAT(error_of(""), HasSubstr("is empty"));
  EXPECT_THAT(error_of("a,a\n"), HasSubstr("two columns have one name"));
  EXPECT_THAT(error_of("job_id,iterations\n1,2\n"),
              HasSubstr("is of no format that is known by its columns: laneway has submit_time_s"));
  const std::string more = "submit_time_s,iterations,iteration_ms,priority,weight,job_class\n";
  EXPECT_THAT(error_of(more + "0,1,1,9999999,1,\n"), HasSubstr("column priority"));
  EXPECT_THAT(error_of(more + "0,1,1,0,0,\n"), HasSubstr("weight"));
  EXPECT_THAT(error_of(more + "0,1,1,0,x,\n"), HasSubstr("column weight: 'x'"));
  EXPECT_THAT(error_of(more + "0,1,1,0,1,urgent\n"), HasSubstr("column job_class: 'urgent'"));
  EXPECT_THAT(read_trace("no/such/file.csv", {}).error().message,
              HasSubstr("'no/such/file.csv' cannot be read: No such file"));
}

constexpr const char* kPhilly =
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:01:55,66.0,1,66.0,a\n"
    "2017-10-09 07:01:56,10.0,8,80.0,a\n"
    "2017-02-28 23:59:59,7.0,1,7.0,b\n"
    "2017-03-01 00:00:01,0.0,1,0.0,a\n"
    "2017-03-01 00:00:01,3.0,1,3.0,a\n";

TEST(JobTrace, PhillyIsSortedByTimeFromItsFirstJobOnAndEqualTimesKeepTheirOrder) {
  const JobTrace all = trace(kPhilly, {.where = {{"num_gpus", "1"}}});
  EXPECT_EQ(all.format, Format::philly);
  EXPECT_FALSE(all.has_memory);
  ASSERT_EQ(all.jobs.size(), 4u);
  EXPECT_EQ(all.without_length, 1u);
  const auto length = [](const SimJob& job) {
    return job.iteration * static_cast<int64_t>(job.iterations);
  };
  EXPECT_EQ(all.jobs[0].submit, TimePoint());
  EXPECT_EQ(length(all.jobs[0]), seconds(7));
  EXPECT_EQ(all.jobs[1].submit, TimePoint() + seconds(2)) << "2017 has no 29 February";
  EXPECT_EQ(length(all.jobs[1]), Duration(1));
  EXPECT_EQ(all.jobs[2].submit, all.jobs[1].submit);
  EXPECT_EQ(length(all.jobs[2]), seconds(3));
  // 222 days, 7 h 1 min 54 s behind 2017-03-01 00:00:01.
  EXPECT_EQ(all.jobs[3].submit - all.jobs[1].submit, seconds(222 * 86'400 + 7 * 3'600 + 114));
  EXPECT_EQ(all.jobs[3].iterations, 660u);

  TraceChoice some{.where = {{"num_gpus", "1"}}, .first = 1, .last = 3};
  const JobTrace rows = trace(kPhilly, some);
  ASSERT_EQ(rows.jobs.size(), 2u);
  EXPECT_EQ(rows.jobs[0].submit, TimePoint());
  EXPECT_EQ(length(rows.jobs[1]), seconds(3));
  some.where.emplace_back("cluster", "b");
  EXPECT_THAT(trace_of(Table::parse("t.csv", kPhilly).value(), some).error().message,
              HasSubstr("has 1 jobs that are wanted, and none of the rows"));
  some.where.emplace_back("user", "x");
  EXPECT_THAT(trace_of(Table::parse("t.csv", kPhilly).value(), some).error().message,
              HasSubstr("has no column user"));
}

TEST(JobTrace, JobsOfSeveralGpusAndTimesThatAreNoneAreNamed) {
  EXPECT_THAT(error_of(kPhilly), HasSubstr("line 3, column num_gpus: one device has one GPU: leave "
                                           "such jobs out, --where num_gpus=1"));
  const auto at = [](const std::string& time) {
    return error_of("timestamp,duration,num_gpus\n" + time + ",1,1\n");
  };
  for (const char* time : {"2017-02-29 00:00:00", "2017-10-09 24:00:00", "2017-10-09", "None",
                           "2017-10-09T07:01:55", "2017-13-09 07:01:55"}) {
    EXPECT_THAT(at(time), HasSubstr("line 2, column timestamp: '" + std::string(time))) << time;
  }
  EXPECT_EQ(at("2020-02-29 23:59:59"), "");
}

TEST(JobTrace, TiresiasKeepsLengthsExactAndIterationsAboutAsTheyAre) {
  const JobTrace found = trace(
      "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
      "7,1,30,606,vgg19,164,30\n8,1,60,133,vgg11,147.5,23\n");
  EXPECT_EQ(found.format, Format::tiresias);
  EXPECT_EQ(found.jobs[0].options.name, "7");
  EXPECT_EQ(found.jobs[1].submit, TimePoint() + seconds(30));
  EXPECT_EQ(found.jobs[0].iteration * static_cast<int64_t>(found.jobs[0].iterations), seconds(164));
  EXPECT_GE(found.jobs[0].iterations, 606u);
  EXPECT_LE(found.jobs[0].iterations, 2 * 606u);
  EXPECT_EQ(found.jobs[1].iteration * static_cast<int64_t>(found.jobs[1].iterations),
            milliseconds(147'500));
}

TEST(ExactIterations, DivideTheLengthWhateverItIs) {
  for (const int64_t ns : {1ll, 7ll, 1'000'000'007ll, 66'000'000'000ll, 3'256'045'000'000'000ll}) {
    for (const uint64_t asked : {1ull, 3ull, 606ull, 32'560'450ull}) {
      const uint64_t count = exact_iterations(Duration(ns), asked);
      EXPECT_EQ(static_cast<uint64_t>(ns) % count, 0u) << ns << " " << asked;
    }
  }
}

}  // namespace
}  // namespace laneway::simulator
