// Shows that every kind of record is one line, that lines name jobs, and what some of them say.
#include "service/trace/trace_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/service/trace/trace_rig.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

using laneway::testing::Record;

TEST(TraceText, EveryKindIsOneLineOfItsOwn) {
  Random random(laneway::testing::seed_from_environment(92));
  std::set<std::string> beginnings;
  for (const Record& record : laneway::testing::every_record(random)) {
    const std::string line = entry_text(record.entry, {});
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    const size_t word = line.find(' ');
    const bool of_core = line.rfind("heard ", 0) == 0 || line.rfind("decided ", 0) == 0;
    beginnings.insert(line.substr(0, of_core ? line.find(' ', word + 1) : word));
  }
  // Events and actions by their names; the seven others by their first word.
  EXPECT_EQ(beginnings.size(),
            std::variant_size_v<lanes::Event> + std::variant_size_v<lanes::Action> + 7);
}

TEST(TraceText, JobsHaveTheNamesThatTheyWereOfferedOrReportedWith) {
  JobNames names;
  lanes::JobOffered offered;
  offered.job = JobId(3);
  offered.options.name = "digits";
  names.on_event(offered);
  lanes::WorkerReported reported;
  reported.report.jobs.emplace_back().offer.job = JobId(4);
  reported.report.jobs.back().offer.options.name = "two\nlines";
  names.on_event(reported);
  const auto line = [&](uint64_t job) {
    return entry_text(wire::trace::Decided{lanes::AdmitJob{JobId(job), LaneId(2)}}, names);
  };
  EXPECT_EQ(line(3), "decided AdmitJob job 3 'digits' to lane 2");
  EXPECT_EQ(line(4), "decided AdmitJob job 4 'two\\nlines' to lane 2");
  EXPECT_EQ(line(5), "decided AdmitJob job 5 to lane 2");
  wire::trace::Iterated iterated;
  iterated.note = {.job = JobId(3),
                   .lane = LaneId(1),
                   .graph = 2,
                   .start_ns = 0,
                   .took_ns = 1'234'567,
                   .outcome = wire::IterationOutcome::did_not_fit};
  EXPECT_EQ(entry_text(iterated, names),
            "iteration of job 3 'digits' in lane 1, graph 2: did_not_fit, 1.235 ms");
}

TEST(TraceText, TimesAreSecondsWithASign) {
  EXPECT_EQ(time_text(0), "+0.000000000");
  EXPECT_EQ(time_text(61'000'000'001), "+61.000000001");
  EXPECT_EQ(time_text(-1'500'000'000), "-1.500000000");
  EXPECT_EQ(time_text(INT64_MIN), "-9223372036.854775808");
}

}  // namespace
}  // namespace laneway::service
