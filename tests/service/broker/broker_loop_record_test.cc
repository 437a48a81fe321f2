// What a broker records of itself when an operator asks for it, and when that ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/trace/trace_reader.h"
#include "service/trace/trace_text.h"
#include "tests/service/broker/broker_loop_rig.h"
#include "tests/support/scratch_folder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;

// What the core heard and decided, in the words of laneway-trace, and the kinds of other records.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  auto reader = TraceReader::open(path);
  if (!reader) return lines;
  while (true) {
    const auto record = reader.value().next();
    if (!record || !record.value()) return lines;
    lines.push_back(entry_text(record.value()->entry, {}));
  }
}

TEST_F(BrokerLoop, IsRecordedFromAMomentOnBeginningWithWhatThereIs) {
  using ::testing::StartsWith;
  const testing::ScratchFolder folder;
  const std::string path = folder.path() + "/record";
  join();
  send_descriptor_message(2);
  ask(job("digits"), 2);
  take_frame();
  wire::WaitJob wait;
  wait.job = 1;
  wait.timeout_ms = 1000;
  EXPECT_TRUE(std::holds_alternative<wire::JobPlaced>(ask(wait, 3)));
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::EndRecord{}, 4)).message,
              HasSubstr("nothing is recorded"));
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::StartRecord{.file = "record"}, 5)).message,
              HasSubstr("'record' is no absolute path"));
  EXPECT_THAT(
      std::get<wire::Failure>(ask(wire::StartRecord{.file = folder.path() + "/no/x"}, 6)).message,
      HasSubstr("/no/x'"));
  const uint64_t reports = worker_.reports;
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::StartRecord{.file = path}, 7)));
  EXPECT_THAT(std::get<wire::Failure>(ask(wire::StartRecord{.file = path + "2"}, 8)).message,
              HasSubstr("recorded already, in '" + path));
  crank_until([&] { return worker_.reports > reports; });
  EXPECT_TRUE(std::holds_alternative<wire::JobPlaced>(ask(wait, 9))) << "it is as before";
  ask(wire::SetPolicy{.policy = "srtf"}, 10);
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::EndRecord{}, 11)));
  ask(wire::SetPolicy{.policy = "fifo"}, 12);
  const std::vector<std::string> lines = lines_of(path);
  ASSERT_GT(lines.size(), 6u);
  EXPECT_THAT(lines[0], StartsWith("started broker 1, pid"));
  EXPECT_THAT(lines[1], StartsWith("core of "));
  EXPECT_THAT(lines[2], StartsWith("handled 1 events"));
  EXPECT_THAT(lines[3], "heard WorkerLost") << "until there is a report";
  EXPECT_THAT(lines[4], StartsWith("core of "));
  EXPECT_THAT(lines[5], StartsWith("handled 1 events"));
  EXPECT_THAT(lines[6], StartsWith("heard WorkerReported 1 jobs"));
  EXPECT_THAT(lines, ::testing::Contains("policy srtf decides"));
  EXPECT_THAT(lines, ::testing::Not(::testing::Contains("policy fifo decides")));
  EXPECT_EQ(lines.back(), "ended");
  EXPECT_EQ(worker_.jobs.size(), 1u);
}

TEST_F(BrokerLoop, ARecordEndsWithTheSessionThatAskedForIt) {
  const testing::ScratchFolder folder;
  const std::string path = folder.path() + "/record";
  join();
  EXPECT_TRUE(std::holds_alternative<wire::Done>(ask(wire::StartRecord{.file = path}, 2)));
  lifeline_ = Channel();
  crank_until([&] {
    const std::vector<std::string> lines = lines_of(path);
    return !lines.empty() && lines.back() == "ended";
  });
}

}  // namespace
}  // namespace laneway::service
