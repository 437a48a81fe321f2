// Shows that the JSON for Chrome is JSON whatever the records say, that iterations lie within the
// turns of their lanes, and that turns which nobody ended end all the same.
#include "service/trace/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/service/trace/trace_rig.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

using laneway::testing::Record;
using nlohmann::json;
namespace trace = wire::trace;

json chrome(const std::vector<Record>& records, int64_t base_ns = 0) {
  std::ostringstream out;
  ChromeTrace chrome_trace(out, base_ns);
  for (const Record& record : records) chrome_trace.add(record);
  chrome_trace.finish();
  return json::parse(out.str()).at("traceEvents");
}

std::vector<json> of_kind(const json& events, const std::string& key, const std::string& value) {
  std::vector<json> found;
  for (const json& event : events) {
    if (event.value(key, "") == value) found.push_back(event);
  }
  return found;
}

Record heard(int64_t at_us, lanes::Event event) {
  return {.time_ns = at_us * 1'000, .entry = trace::Heard{std::move(event)}};
}
Record decided(int64_t at_us, lanes::Action action) {
  return {.time_ns = at_us * 1'000, .entry = trace::Decided{action}};
}
Record granted(int64_t at_us, uint64_t turn, uint64_t lane, uint64_t job) {
  lanes::GrantTurn grant;
  grant.turn.id = TurnId(turn);
  grant.turn.lane = LaneId(lane);
  grant.turn.job = JobId(job);
  return decided(at_us, grant);
}
Record ended(int64_t at_us, uint64_t turn) {
  lanes::TurnEnded event;
  event.turn = TurnId(turn);
  event.iterations = 1;
  return heard(at_us, event);
}
Record iterated(int64_t at_us, int64_t took_us, uint64_t lane, uint64_t job) {
  trace::Iterated entry;
  entry.note = {JobId(job),
                LaneId(lane),
                0,
                at_us * 1'000,
                took_us * 1'000,
                0,
                wire::IterationOutcome::completed};
  return {.time_ns = at_us * 1'000, .entry = entry};
}
Record offered(int64_t at_us, uint64_t job, const std::string& name) {
  lanes::JobOffered event;
  event.job = JobId(job);
  event.options.name = name;
  return heard(at_us, event);
}

TEST(ChromeTrace, IsJsonWhateverTheRecordsSay) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(laneway::testing::seed_from_environment(93) + seed);
    std::vector<Record> records = laneway::testing::every_record(random);
    for (size_t i = records.size(); i > 1; --i) std::swap(records[i - 1], records[random.below(i)]);
    EXPECT_GT(chrome(records).size(), 2u);
  }
}

TEST(ChromeTrace, IterationsLieWithinTheTurnsOfTheirLanes) {
  const json events = chrome({offered(1, 1, "a \"b\""), offered(1, 2, "c"), granted(10, 1, 1, 1),
                              granted(11, 2, 2, 2), iterated(12, 5, 1, 1), iterated(20, 5, 1, 1),
                              ended(30, 1), iterated(13, 30, 2, 2), ended(50, 2),
                              granted(51, 3, 1, 2), iterated(52, 3, 1, 2), ended(60, 3)});
  const std::vector<json> turns = of_kind(events, "cat", "turn");
  const std::vector<json> iterations = of_kind(events, "cat", "iteration");
  ASSERT_EQ(turns.size(), 3u);
  ASSERT_EQ(iterations.size(), 4u);
  for (const json& one : iterations) {
    int around = 0;
    for (const json& turn : turns) {
      const double end = one["ts"].get<double>() + one["dur"].get<double>();
      const bool within = turn["tid"] == one["tid"] && turn["ts"] <= one["ts"] &&
                          end <= turn["ts"].get<double>() + turn["dur"].get<double>();
      if (!within) continue;
      ++around;
      EXPECT_EQ(turn["args"]["job"], one["args"]["job"]);
      EXPECT_EQ(one["args"]["name"], turn["name"]);
    }
    EXPECT_EQ(around, 1) << one;
  }
  EXPECT_EQ(turns[0]["name"], "a \"b\"");
  EXPECT_EQ(of_kind(events, "name", "thread_name").size(), 3u);  // the service and two lanes
}

TEST(ChromeTrace, TurnsEndWithTheirWorkerWithAReportOrWithTheTrace) {
  lanes::WorkerReported report;
  report.report.jobs.emplace_back();
  report.report.jobs.back().offer.job = JobId(1);
  report.report.jobs.back().lane = LaneId(1);
  report.report.jobs.back().turn = TurnId(3);
  const json events =
      chrome({granted(10, 1, 1, 1), heard(20, lanes::WorkerLost{}), granted(30, 2, 2, 2),
              granted(31, 3, 1, 1), heard(40, report), iterated(45, 10, 1, 1)});
  const std::vector<json> turns = of_kind(events, "cat", "turn");
  ASSERT_EQ(turns.size(), 3u);
  const auto expect = [&](size_t at, int turn, double start, double took, const char* why) {
    EXPECT_EQ(turns[at]["args"]["turn"], turn);
    EXPECT_EQ(turns[at]["ts"], start);
    EXPECT_EQ(turns[at]["dur"], took);
    EXPECT_EQ(turns[at]["args"]["end"], why);
  };
  expect(0, 1, 10, 10, "worker lost");
  expect(1, 2, 30, 10, "not reported");
  expect(2, 3, 31, 24, "end of the trace");
  EXPECT_EQ(of_kind(events, "name", "worker lost").size(), 1u);
  EXPECT_EQ(of_kind(events, "name", "worker reported").size(), 1u);
}

TEST(ChromeTrace, InstantsTellOfJobsAndCountersOfThePool) {
  trace::Started started;
  started.pool_bytes = 1'000;
  lanes::QueueJob queue;
  queue.job = JobId(1);
  queue.reason.code = lanes::ReasonCode::pool_full;
  lanes::RefuseJob refuse;
  refuse.job = JobId(1);
  refuse.reason.code = lanes::ReasonCode::larger_than_pool;
  const json events = chrome(
      {{.time_ns = 5'000, .entry = started},
       offered(6, 1, "digits"),
       decided(7, queue),
       decided(8, lanes::AdmitJob{JobId(1), LaneId(1)}),
       decided(9, lanes::PlaceImage{JobId(1), Bytes(0), Bytes(300)}),
       decided(10, lanes::OpenRegion{RegionId(1), LaneId(1), Bytes(300), Bytes(200)}),
       decided(11, lanes::PlaceImage{JobId(1), Bytes(0), Bytes(300)}),  // again: a new worker
       decided(12, lanes::ResizeRegion{RegionId(1), Bytes(300), Bytes(700)}),
       decided(13, lanes::CloseRegion{RegionId(1)}),
       decided(14, lanes::DropImage{JobId(1)}),
       decided(15, refuse)},
      5'000);
  std::vector<std::string> rows;
  for (const json& event : of_kind(events, "ph", "C")) {
    EXPECT_EQ(event["name"], "pool bytes");
    rows.push_back(event["ts"].dump() + " " + event["args"].dump());
  }
  using ::testing::ElementsAre;
  EXPECT_THAT(rows, ElementsAre("0.0 {\"free\":1000,\"persistent\":0,\"regions\":0}",
                                "4.0 {\"free\":700,\"persistent\":300,\"regions\":0}",
                                "5.0 {\"free\":500,\"persistent\":300,\"regions\":200}",
                                "7.0 {\"free\":0,\"persistent\":300,\"regions\":700}",
                                "8.0 {\"free\":700,\"persistent\":300,\"regions\":0}",
                                "9.0 {\"free\":1000,\"persistent\":0,\"regions\":0}"));
  const auto what = [&](const std::string& name) {
    const std::vector<json> found = of_kind(events, "name", name);
    return found.size() == 1 ? found[0]["args"]["what"].get<std::string>() : "";
  };
  EXPECT_THAT(what("queued: digits"), ::testing::HasSubstr("pool_full"));
  EXPECT_THAT(what("admitted: digits"), ::testing::HasSubstr("lane 1"));
  EXPECT_THAT(what("refused: digits"), ::testing::HasSubstr("larger_than_pool"));
}

}  // namespace
}  // namespace laneway::service
