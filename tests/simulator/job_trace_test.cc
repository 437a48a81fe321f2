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
  const auto jobs = jobs_of(table.value(), Estimates::trace);
  return jobs ? "" : jobs.error().message;
}

std::vector<SimJob> read(const std::string& text, Estimates estimates = Estimates::trace) {
  return jobs_of(Table::parse("t.csv", text).value(), estimates).value();
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
      "a,0.5,7708,59.3,71.7,1324.7,60,3,2.5,100,inference,50\r\n\n"
      "b,0,1,0.000001,0,0,,,,,,\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].options.name, "a");
  EXPECT_EQ(jobs[0].submit, TimePoint(500'000'000));
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
  EXPECT_THAT(with(""), HasSubstr("has no job"));
  EXPECT_THAT(error_of(""), HasSubstr("is empty"));
  EXPECT_THAT(error_of("a,a\n"), HasSubstr("two columns have one name"));
  EXPECT_THAT(error_of("job_id,iterations\n1,2\n"),
              HasSubstr("has no column submit_time_s, iteration_ms"));
  const std::string more = "submit_time_s,iterations,iteration_ms,priority,weight,job_class\n";
  EXPECT_THAT(error_of(more + "0,1,1,9999999,1,\n"), HasSubstr("column priority"));
  EXPECT_THAT(error_of(more + "0,1,1,0,0,\n"), HasSubstr("weight"));
  EXPECT_THAT(error_of(more + "0,1,1,0,x,\n"), HasSubstr("column weight: 'x'"));
  EXPECT_THAT(error_of(more + "0,1,1,0,1,urgent\n"), HasSubstr("column job_class: 'urgent'"));
  EXPECT_THAT(read_jobs("no/such/file.csv", Estimates::trace).error().message,
              HasSubstr("'no/such/file.csv' cannot be read: No such file"));
}

}  // namespace
}  // namespace laneway::simulator
