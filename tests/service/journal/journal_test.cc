// Shows that the journal tells a successor exactly one true thing, wherever the writer died. A
// child takes the steps one machine instruction after the other and the parent reads the memory in
// between, so a death at every single place is tried; another child is killed at any moment while
// it runs freely.
#include "service/journal/journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "base/check.h"
#include "tests/service/journal/journal_file.h"
#include "tests/service/journal/single_step.h"

namespace laneway::service {
namespace {

using testing::JournalFile;
using testing::single_step;
using Verdict = JobRecovery::Verdict;

// Short, because each of its bytes takes instructions to write.
constexpr size_t kStateBytes = 64;

std::vector<std::byte> random_state(int value) {
  return std::vector<std::byte>(kStateBytes, static_cast<std::byte>(value));
}

bool is_all(std::span<const std::byte> bytes, int value) {
  return std::ranges::equal(bytes, random_state(value));
}

// What a successor would learn now.
struct Reading {
  JobRecovery recovery;
  uint64_t iterations = 0;
  int64_t busy_ns = 0;
  int random = -1;  // the byte that the state is all of; -1: it is mixed
};

Reading read(const JobJournal& job) {
  Reading reading{job.recover(), job.iterations(), job.busy().ns(), -1};
  const auto random = job.random_state(kStateBytes);
  if (is_all(random, static_cast<int>(random[0]))) reading.random = static_cast<int>(random[0]);
  return reading;
}

TEST(Journal, IsMadeOnceAndFoundAgain) {
  const JournalFile file;
  {
    auto first = file.map();
    ASSERT_TRUE(first.ok()) << first.error().message;
    JobJournal job = first.value()->job(7);
    EXPECT_FALSE(job.job().valid());
    job.open(JobId(12), random_state(3));
    EXPECT_EQ(job.recover().verdict, Verdict::nothing);
    job.placing(LaneId(2), Bytes(4096), Bytes(640));
    job.begin({.link = 5, .sequence = 9});
    first.value()->set_region({LaneId(2), RegionId(8), Bytes(64), Bytes(128)});
    first.value()->set_region({LaneId(64), RegionId(9), Bytes(0), Bytes(64)});
    first.value()->set_region({LaneId(2), RegionId(8), Bytes(64), Bytes(256)});
    first.value()->close_region(LaneId(64));
  }
  auto second = file.map().value();
  const JobJournal job = second->job(7);
  EXPECT_EQ(job.job(), JobId(12));
  EXPECT_EQ(job.lane(), LaneId(2));
  EXPECT_EQ(job.image_offset(), Bytes(4096));
  EXPECT_EQ(job.image_size(), Bytes(640));
  EXPECT_FALSE(job.is_placed());
  EXPECT_FALSE(job.is_over());
  EXPECT_EQ(job.recover().verdict, Verdict::run_again);
  EXPECT_EQ(job.recover().origin, (RequestOrigin{.link = 5, .sequence = 9}));
  EXPECT_TRUE(is_all(job.random_state(kStateBytes), 3));
  const std::vector<Journal::Region> regions = second->regions();
  ASSERT_EQ(regions.size(), 1U);
  EXPECT_EQ(regions[0].lane, LaneId(2));
  EXPECT_EQ(regions[0].size, Bytes(256));
  JobJournal again = second->job(7);
  again.close();
  EXPECT_TRUE(again.is_over());
  again.open(JobId(13), {});
  EXPECT_FALSE(again.is_over());
  EXPECT_FALSE(again.lane().valid());
  EXPECT_EQ(again.recover().verdict, Verdict::nothing);
}

TEST(Journal, RefusesWhatIsNone) {
  EXPECT_FALSE(JournalFile(4096).map());
  const JournalFile file;
  ASSERT_TRUE(file.map());
  file.scribble();
  const auto found = file.map();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::invalid_argument);
}

TEST(JournalView, SeesAJobsProgressAndNobodyElses) {
  const JournalFile file;
  const auto view = file.view().value();
  EXPECT_FALSE(view->progress(3, JobId(1))) << "a fresh file says nothing";
  EXPECT_FALSE(view->progress(3, JobId())) << "not even of a job that is none";
  const auto journal = file.map().value();
  JobJournal job = journal->job(3);
  job.open(JobId(1), {});
  EXPECT_EQ(view->progress(3, JobId(1))->iterations, 0U);
  for (uint64_t i = 0; i < 3; ++i) {
    job.begin({.link = 1, .sequence = i});
    job.enter_commit();
    job.end({}, i != 1, Duration(10));
  }
  EXPECT_EQ(view->progress(3, JobId(1))->iterations, 2U);
  EXPECT_EQ(view->progress(3, JobId(1))->busy, Duration(20));
  EXPECT_FALSE(view->progress(3, JobId(2)));
  EXPECT_FALSE(view->progress(4, JobId(1)));
  EXPECT_FALSE(view->progress(limits::kMaxJobs, JobId(1)));
  EXPECT_FALSE(JournalFile(4096).view());
}

TEST(JournalView, HasWhatTheWorkerShowsOfAJobUntilTheRecordIsAnothers) {
  const JournalFile file;
  const auto view = file.view().value();
  EXPECT_EQ(view->shown(3, JobId(1)), nullptr) << "a fresh file shows nothing";
  const auto journal = file.map().value();
  JobJournal job = journal->job(3);
  job.open(JobId(1), {});
  ASSERT_NE(view->shown(3, JobId(1)), nullptr);
  job.shown().moved_bytes = 4096;
  EXPECT_EQ(view->shown(3, JobId(1))->moved_bytes, 4096);
  job.open(JobId(2), {});
  EXPECT_EQ(view->shown(3, JobId(1)), nullptr);
  EXPECT_EQ(view->shown(3, JobId(2))->moved_bytes, 0) << "the next job begins with nothing";
  EXPECT_EQ(view->shown(limits::kMaxJobs, JobId(2)), nullptr);
}

TEST(JournalView, LooksWhileTheWriterGoesOn) {
  const JournalFile file;
  const auto view = file.view().value();
  const auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), {});
  constexpr uint64_t kIterations = 20'000;
  std::thread writer([&job] {
    for (uint64_t i = 0; i < kIterations; ++i) {
      job.begin({.link = 1, .sequence = i});
      job.enter_commit();
      job.end({}, true, Duration(10));
    }
  });
  uint64_t before = 0;
  while (before < kIterations) {
    const auto progress = view->progress(0, JobId(1));
    LW_CHECK(progress.has_value(), "the record stays the job's");
    EXPECT_GE(progress->iterations, before);
    before = progress->iterations;
  }
  writer.join();
  EXPECT_EQ(view->progress(0, JobId(1))->busy, Duration(10 * kIterations));
}

// The readings of a sequence of steps, each different from the one before it.
std::vector<Reading> readings_of(JobJournal& job, const std::function<void()>& steps) {
  std::vector<Reading> readings;
  const auto same = [](const Reading& a, const Reading& b) {
    return a.recovery.verdict == b.recovery.verdict && a.recovery.origin == b.recovery.origin &&
           a.recovery.number == b.recovery.number && a.iterations == b.iterations &&
           a.busy_ns == b.busy_ns && a.random == b.random;
  };
  const bool traced = single_step(steps, [&] {
    const Reading reading = read(job);
    if (readings.empty() || !same(readings.back(), reading)) readings.push_back(reading);
  });
  if (!traced) readings.clear();
  return readings;
}

void expect_reading(const Reading& reading, Verdict verdict, uint64_t sequence, uint64_t iterations,
                    int random) {
  EXPECT_EQ(reading.recovery.verdict, verdict);
  EXPECT_EQ(reading.recovery.origin, (RequestOrigin{.link = 1, .sequence = sequence}));
  EXPECT_EQ(reading.iterations, iterations);
  EXPECT_EQ(reading.busy_ns, static_cast<int64_t>(iterations) * 10);
  EXPECT_EQ(reading.random, random);
}

TEST(Journal, ADeathAtAnyInstructionLeavesTheFormerStepOrTheNext) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), random_state(1));
  job.begin({1, 0});
  job.end(random_state(2), true, Duration(10));

  const std::vector<std::byte> third = random_state(3), fourth = random_state(4);
  const std::vector<Reading> iteration = readings_of(job, [&] {
    job.begin({1, 1});
    job.enter_commit();
    job.end(third, true, Duration(10));
  });
  if (iteration.empty()) GTEST_SKIP() << "this system does not let a test trace its child";
  ASSERT_EQ(iteration.size(), 4U);
  expect_reading(iteration[0], Verdict::publish, 0, 1, 2);
  expect_reading(iteration[1], Verdict::run_again, 1, 1, 2);
  expect_reading(iteration[2], Verdict::restore, 1, 1, 2);
  expect_reading(iteration[3], Verdict::publish, 1, 2, 3);

  // One that was abandoned, and then another; it draws nothing, and does not count.
  const std::vector<Reading> other = readings_of(job, [&] {
    job.begin({1, 2});
    job.begin({1, 3});
    job.end({}, false, Duration(10));
    job.begin_writing({1, 4});
    job.end(fourth, false, Duration());
  });
  ASSERT_EQ(other.size(), 7U);
  expect_reading(other[0], Verdict::publish, 1, 2, 3);
  expect_reading(other[1], Verdict::run_again, 2, 2, 3);
  expect_reading(other[2], Verdict::publish, 1, 2, 3);
  expect_reading(other[3], Verdict::run_again, 3, 2, 3);
  expect_reading(other[4], Verdict::publish, 3, 2, 3);
  expect_reading(other[5], Verdict::rewrite, 4, 2, 3);
  expect_reading(other[6], Verdict::publish, 4, 2, 4);
}

TEST(Journal, OpeningARecordIsOneStep) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal job = journal->job(4);
  job.open(JobId(1), random_state(1));
  job.placing(LaneId(1), Bytes(0), Bytes(64));
  job.placed();
  job.begin({1, 0});
  job.enter_commit();
  job.close();
  const std::vector<std::byte> second = random_state(2);
  std::set<uint64_t> jobs;
  const bool traced = single_step([&] { job.open(JobId(2), second); },
                                  [&] {
                                    jobs.insert(job.job().value());
                                    if (job.job() == JobId(1)) {
                                      EXPECT_TRUE(job.is_over());
                                    }
                                    if (job.job() != JobId(2)) return;
                                    EXPECT_EQ(job.recover().verdict, Verdict::nothing);
                                    EXPECT_FALSE(job.is_over());
                                    EXPECT_FALSE(job.lane().valid());
                                    EXPECT_FALSE(job.is_placed());
                                    EXPECT_EQ(read(job).random, 2);
                                  });
  if (!traced) GTEST_SKIP() << "this system does not let a test trace its child";
  EXPECT_EQ(jobs, (std::set<uint64_t>{0, 1, 2}));
}

TEST(Journal, AJobThatLeftThePoolComesIntoNoLane) {
  const JournalFile file;
  auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), random_state(0));
  job.placing(LaneId(1), Bytes(0), Bytes(64));
  job.change_lane(LaneId(2));
  EXPECT_EQ(job.lane(), LaneId(2));
  job.left();
  job.change_lane(LaneId(3));
  EXPECT_FALSE(job.lane().valid());
}

// Out of the pool and back: at every instruction a successor finds the state in exactly one place.
TEST(Journal, AnImageThatMovesIsAlwaysSomewhere) {
  const JournalFile file;
  auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), random_state(0));
  job.placing(LaneId(1), Bytes(0), Bytes(64));
  job.placed();
  std::set<std::pair<bool, bool>> seen;
  const bool traced = single_step(
      [&job] {
        job.keep_copy({.tier = 2, .offset = Bytes(128), .checksum = 5});
        job.left();
        job.placing(LaneId(3), Bytes(640), Bytes(64));
        job.placed();
        job.drop_copy();
      },
      [&] {
        const auto copy = job.copy();
        EXPECT_TRUE(job.is_placed() || copy) << "its bytes are nowhere";
        if (copy) {
          EXPECT_EQ(copy->tier, 2u);
          EXPECT_EQ(copy->offset, Bytes(128));
          EXPECT_EQ(copy->checksum, 5u);
        }
        seen.emplace(job.is_placed(), copy.has_value());
      });
  if (!traced) GTEST_SKIP() << "this system does not let a test trace its child";
  EXPECT_EQ(seen.size(), 3u) << "in the pool, in both, outside";
}

TEST(Journal, ARegionIsTheFormerOrTheNewOne) {
  const JournalFile file;
  const auto journal = file.map().value();
  journal->set_region({LaneId(3), RegionId(1), Bytes(64), Bytes(128)});
  std::set<std::vector<int64_t>> seen;
  const bool traced = single_step(
      [&] {
        journal->set_region({LaneId(3), RegionId(2), Bytes(256), Bytes(512)});
        journal->close_region(LaneId(3));
      },
      [&] {
        std::vector<int64_t> numbers;
        for (const Journal::Region& region : journal->regions()) {
          numbers = {static_cast<int64_t>(region.region.value()), region.offset.count(),
                     region.size.count()};
        }
        seen.insert(numbers);
      });
  if (!traced) GTEST_SKIP() << "this system does not let a test trace its child";
  EXPECT_EQ(seen, (std::set<std::vector<int64_t>>{{}, {1, 64, 128}, {2, 256, 512}}));
}

// What the child below did, in memory of its own: begun, entered its commit phase, ended.
struct Truth {
  std::atomic<uint64_t> begun, committing, ended;
};

[[noreturn]] void journal_for_ever(JobJournal job, Truth& truth) {
  for (uint64_t sequence = 0;; ++sequence) {
    truth.begun.store(sequence + 1);
    job.begin({1, sequence});
    truth.committing.store(sequence + 1);
    job.enter_commit();
    job.end(random_state(static_cast<int>(sequence % 251)), true, Duration(10));
    truth.ended.store(sequence + 1);
  }
}

TEST(Journal, AChildKilledAtAnyMoment) {
  void* shared =
      ::mmap(nullptr, sizeof(Truth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& truth = *new (shared) Truth{};
  for (uint64_t round = 0; round < 40; ++round) {
    const JournalFile file;
    const auto journal = file.map().value();
    JobJournal job = journal->job(0);
    job.open(JobId(1), random_state(250));
    truth.begun = truth.committing = truth.ended = 0;
    const pid_t child = ::fork();
    if (child == 0) journal_for_ever(job, truth);
    while (truth.ended.load() < 10 * round) ::sched_yield();
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    const Reading reading = read(job);
    const uint64_t ended = truth.ended.load();
    // The truth is written before a step begins and after it ended: it may be one step off.
    EXPECT_GE(reading.iterations, ended);
    EXPECT_LE(reading.iterations, truth.committing.load());
    EXPECT_EQ(reading.busy_ns, static_cast<int64_t>(reading.iterations) * 10);
    EXPECT_EQ(reading.random,
              reading.iterations == 0 ? 250 : static_cast<int>((reading.iterations - 1) % 251));
    const uint64_t sequence = reading.recovery.origin.sequence;
    switch (reading.recovery.verdict) {
      case Verdict::nothing: EXPECT_EQ(ended, 0U); break;
      case Verdict::publish: EXPECT_EQ(sequence + 1, reading.iterations); break;
      case Verdict::run_again: EXPECT_EQ(sequence, reading.iterations); break;
      case Verdict::restore:
        EXPECT_EQ(sequence, reading.iterations);
        EXPECT_EQ(truth.committing.load(), sequence + 1);
        break;
      case Verdict::spoiled: FAIL() << "nothing failed";
      case Verdict::rewrite: FAIL() << "nothing was written by a client";
    }
  }
  ::munmap(shared, sizeof(Truth));
}

}  // namespace
}  // namespace laneway::service
