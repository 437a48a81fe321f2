// Shows that what is noted in a trace is what is read: every kind of record, across restarts and
// torn ends, from files that were cut at any byte or belong to something else, and that a file that
// cannot grow stops the trace alone.
#include "service/trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "tests/service/trace/trace_rig.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

using laneway::testing::append_records;
using laneway::testing::bytes_of;
using laneway::testing::every_record;
using laneway::testing::file_bytes;
using laneway::testing::read_back;
using laneway::testing::ReadBack;
using laneway::testing::Record;
using laneway::testing::write_bytes;
using ::testing::HasSubstr;

constexpr size_t kRecordHead = sizeof(TraceRecordHeader);

class TraceFile : public ::testing::Test {
 protected:
  void begin() { LW_CHECK(begin_trace_file(path_, clock_).ok(), path_); }
  static std::vector<std::vector<std::byte>> encoded(const std::vector<Record>& records) {
    std::vector<std::vector<std::byte>> all;
    for (const Record& record : records) all.push_back(bytes_of(record));
    return all;
  }
  static Record small(uint64_t number) {
    return {.time_ns = 1, .entry = wire::trace::Heard{lanes::WorkReady{JobId(number)}}};
  }

  laneway::testing::ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/trace";
  ManualClock clock_;
  Random random_{laneway::testing::seed_from_environment(91)};
};

TEST_F(TraceFile, EveryKindOfRecordComesBackAsItWasNoted) {
  begin();
  const std::vector<Record> records = every_record(random_);
  ASSERT_EQ(records.size(), std::variant_size_v<wire::trace::Entry> +
                                std::variant_size_v<lanes::Event> +
                                std::variant_size_v<lanes::Action>);
  append_records(path_, records);
  const ReadBack back = read_back(path_);
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.records, encoded(records));
}

TEST_F(TraceFile, ANewWriterGoesOnBehindTheLast) {
  begin();
  append_records(path_, {small(1), small(2)});
  append_records(path_, {small(3)});
  EXPECT_EQ(read_back(path_).records, encoded({small(1), small(2), small(3)}));
}

TEST_F(TraceFile, CutAtAnyByteWhatIsWholeIsReadAndAWriterGoesOnBehindIt) {
  begin();
  const std::vector<Record> records{small(1), every_record(random_).at(2), small(2)};
  std::vector<size_t> ends{sizeof(TraceHeader)};
  for (const Record& record : records)
    ends.push_back(ends.back() + kRecordHead + bytes_of(record).size());
  append_records(path_, records);
  const std::string whole = file_bytes(path_);
  ASSERT_EQ(whole.size(), ends.back());
  for (size_t size = 0; size < whole.size(); ++size) {
    write_bytes(path_, whole.substr(0, size));
    const ReadBack back = read_back(path_);
    if (size < sizeof(TraceHeader)) {
      EXPECT_THAT(back.error, HasSubstr("header")) << size;
      EXPECT_FALSE(TraceWriter::append(path_).ok()) << size;
      continue;
    }
    size_t count = 0;
    while (ends[count + 1] <= size) ++count;
    EXPECT_EQ(back.records.size(), count) << size;
    if (ends[count] == size) {
      EXPECT_EQ(back.error, "") << size;
    } else {
      EXPECT_THAT(back.error, HasSubstr("at offset " + std::to_string(ends[count]))) << size;
    }
    append_records(path_, {small(9)});
    const ReadBack repaired = read_back(path_);
    EXPECT_EQ(repaired.error, "") << size;
    ASSERT_EQ(repaired.records.size(), count + 1) << size;
    EXPECT_EQ(repaired.records.back(), bytes_of(small(9))) << size;
  }
}

TEST_F(TraceFile, BytesThatAreNoRecordAreAnErrorWithTheirOffset) {
  begin();
  append_records(path_, {small(1), small(2)});
  const std::string whole = file_bytes(path_);
  const size_t second = sizeof(TraceHeader) + kRecordHead + bytes_of(small(1)).size();
  for (size_t at = second; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x7f);
    write_bytes(path_, damaged);
    const ReadBack back = read_back(path_);
    EXPECT_EQ(back.records.size(), 1u) << at;
    EXPECT_THAT(back.error, HasSubstr("at offset " + std::to_string(second))) << at;
  }
}

TEST_F(TraceFile, AHeaderWithOneByteChangedIsRefused) {
  begin();
  const std::string whole = file_bytes(path_);
  ASSERT_EQ(whole.size(), sizeof(TraceHeader));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x01);
    write_bytes(path_, damaged);
    EXPECT_THAT(read_back(path_).error, HasSubstr(path_)) << at;
  }
}

TEST_F(TraceFile, AnotherVersionIsRefusedWithBothNumbers) {
  begin();
  std::string bytes = file_bytes(path_);
  bytes[8] = 77;
  write_bytes(path_, bytes);
  const std::string error = read_back(path_).error;
  EXPECT_THAT(error, HasSubstr("version 77"));
  EXPECT_THAT(error, HasSubstr("version " + std::to_string(kTraceVersion)));
  EXPECT_FALSE(TraceWriter::append(path_).ok());
  // It is a trace all the same: a new one may take its place.
  EXPECT_TRUE(begin_trace_file(path_, clock_).ok());
  EXPECT_EQ(read_back(path_).error, "");
}

TEST_F(TraceFile, WhatIsNoTraceIsLeftAlone) {
  const std::string text = "thirty years of letters, all of them in this one file";
  write_bytes(path_, text);
  EXPECT_THAT(begin_trace_file(path_, clock_).error().message, HasSubstr("no trace"));
  EXPECT_EQ(file_bytes(path_), text);
  EXPECT_THAT(read_back(path_).error, HasSubstr("does not begin as a trace"));
  EXPECT_THAT(begin_trace_file(folder_.path(), clock_).error().message, HasSubstr("'"));
  EXPECT_FALSE(begin_trace_file(folder_.path() + "/none/trace", clock_).ok());
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(begin_trace_file(pipe, clock_).error().message, HasSubstr("regular"));
}

TEST_F(TraceFile, OneServiceBeginsItAtATime) {
  const auto first = begin_trace_file(path_, clock_);
  ASSERT_TRUE(first.ok());
  append_records(path_, {small(1)});
  EXPECT_THAT(begin_trace_file(path_, clock_).error().message, HasSubstr("another lanewayd"));
  EXPECT_EQ(read_back(path_).records.size(), 1u);
}

TEST_F(TraceFile, WhatHasNoRoomIsCountedInARecord) {
  begin();
  const size_t each = kRecordHead + bytes_of(small(1)).size();
  {
    auto writer = std::move(TraceWriter::append(path_, 3 * each)).value();
    for (uint64_t i = 0; i < 8; ++i) writer->note(TimePoint(), small(i));
    writer->flush();
    writer->note(TimePoint(), small(9));
  }
  const Record lost{.time_ns = 0, .entry = wire::trace::Lost{.records = 5, .iterations = 0}};
  EXPECT_EQ(read_back(path_).records, encoded({small(0), small(1), small(2), lost, small(9)}));
}

TEST_F(TraceFile, BehindWhatIsLostNothingStandsBeforeTheCount) {
  begin();
  const Record large{.time_ns = 1, .entry = wire::trace::PolicySet{std::string(500, 'x')}};
  {
    auto writer = std::move(TraceWriter::append(path_, 400)).value();
    writer->note(TimePoint(), small(1));
    writer->note(TimePoint(), large);
    writer->note(TimePoint(), small(2));  // there would be room for it
  }
  const Record lost{.time_ns = 0, .entry = wire::trace::Lost{.records = 2, .iterations = 0}};
  EXPECT_EQ(read_back(path_).records, encoded({small(1), lost}));
}

TEST_F(TraceFile, ItIsWrittenWhenDueOrHalfFull) {
  begin();
  const size_t each = kRecordHead + bytes_of(small(1)).size();
  auto writer = std::move(TraceWriter::append(path_, 10 * each)).value();
  EXPECT_EQ(writer->next_flush(), TimePoint::never());
  const TimePoint start = TimePoint() + seconds(1);
  writer->note(start, small(1));
  writer->note(start + milliseconds(1), small(2));
  const TimePoint due = start + limits::kLongestTraceDelay;
  EXPECT_EQ(writer->next_flush(), due);
  writer->flush_if_due(due + Duration(-1));
  EXPECT_EQ(read_back(path_).records.size(), 0u);
  writer->flush_if_due(due);
  EXPECT_EQ(read_back(path_).records.size(), 2u);
  EXPECT_EQ(writer->next_flush(), TimePoint::never());
  for (uint64_t i = 0; i < 6; ++i) writer->note(start, small(i));
  writer->flush_if_due(start);
  EXPECT_EQ(read_back(path_).records.size(), 8u);
}

TEST_F(TraceFile, AFileThatCannotGrowStopsTheTraceWithWholeRecords) {
  begin();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  auto writer = std::move(TraceWriter::append(path_)).value();
  writer->note(TimePoint(), small(1));
  writer->flush();
  const size_t each = kRecordHead + bytes_of(small(1)).size();
  rlimit low = before;
  low.rlim_cur = sizeof(TraceHeader) + 2 * each + 3;  // within the third
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  for (uint64_t i = 2; i < 6; ++i) writer->note(TimePoint(), small(i));
  writer->flush();
  const bool stopped = writer->stopped();
  writer->note(TimePoint(), small(7));
  writer->flush();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(writer->next_flush(), TimePoint::never());
  const ReadBack back = read_back(path_);
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.records, encoded({small(1)}));
}

}  // namespace
}  // namespace laneway::service
