// Shows whom a successor blames for a device that failed: who was alone, or there twice within what
// is remembered; whom for the death of a worker: who was at the same node twice; and that it hears
// what the device said.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/service/journal/journal_file.h"
#include "tests/service/journal/single_step.h"

namespace laneway::service {
namespace {

using testing::JournalFile;
using testing::single_step;

TEST(Journal, BlamesAJobThatWasAloneOrWasThereTwice) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal alone = journal->job(0);
  JobJournal twice = journal->job(1);
  alone.open(JobId(1), {});
  twice.open(JobId(2), {});
  EXPECT_FALSE(alone.blamed());
  alone.suspect("it was alone", true);
  twice.suspect("once", false);
  EXPECT_EQ(alone.blamed(), "it was alone");
  EXPECT_FALSE(twice.blamed()) << "it may have been another's";
  twice.begin({.link = 1, .sequence = 1});
  twice.end({}, true, Duration(1));
  twice.suspect(std::string(2 * kSuspicionTextBytes, 'x'), false);
  EXPECT_EQ(twice.blamed(), std::string(kSuspicionTextBytes, 'x'));
  twice.open(JobId(3), {});
  EXPECT_FALSE(twice.blamed()) << "another job's record";
}

TEST(Journal, BlamesAJobOfWhichTheWorkerDiedTwiceAtTheSamePlace) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), {});
  job.suspect("the device", false);
  job.blame("first", 0, 0);
  EXPECT_FALSE(job.blamed()) << "the device's counts for nothing";
  EXPECT_TRUE(job.died_of_it());
  job.blame("another node", 0, 1);
  job.blame("another graph", 1, 1);
  EXPECT_FALSE(job.blamed());
  EXPECT_EQ(job.suspicions(), 1U);
  job.blame("again", 1, 1);
  EXPECT_EQ(job.blamed(), "again");
  job.blame("while its state was restored", 0, 7);
  EXPECT_EQ(job.suspicions(), 3U) << "who is blamed stays so";
  job.acquit();
  job.blame("later", 0, 7);
  EXPECT_FALSE(job.blamed());
  job.suspect("the device", false);
  EXPECT_FALSE(job.blamed()) << "a crash counts for nothing there";
  EXPECT_FALSE(job.died_of_it());
  job.blame("later", 0, 7);
  job.open(JobId(2), {});
  EXPECT_FALSE(job.died_of_it()) << "another job's record";
}

TEST(Journal, AReleasedJobIsBlamedWithItsNextDeathAtThatPlace) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), {});
  job.blame("crash", 0, 4);
  job.blame("crash", 0, 4);
  ASSERT_TRUE(job.blamed());
  job.release_from_quarantine();
  EXPECT_FALSE(job.blamed());
  EXPECT_TRUE(job.is_suspect());
  job.blame("elsewhere", 0, 5);
  EXPECT_FALSE(job.blamed());
  job.blame("crash", 0, 5);
  EXPECT_TRUE(job.blamed());
}

TEST(Journal, CountsHowOftenMemoryRanOutAtOneRequest) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), {});
  job.begin({.link = 1, .sequence = 1});
  EXPECT_EQ(job.count_out_of_memory(), 1U);
  EXPECT_EQ(job.count_out_of_memory(), 2U);
  job.end({}, true, Duration(1));
  job.begin({.link = 1, .sequence = 2});
  EXPECT_EQ(job.count_out_of_memory(), 1U) << "a request was completed in between";
  EXPECT_FALSE(job.is_suspect());
  job.blame_once("together", false);
  EXPECT_TRUE(job.is_suspect());
  EXPECT_FALSE(job.blamed());
  job.blame_once("alone", true);
  EXPECT_EQ(job.blamed(), "alone");
  EXPECT_TRUE(job.died_of_it() && job.ran_out_of_memory());
  job.release_from_quarantine();
  EXPECT_EQ(job.count_out_of_memory(), 1U);
}

// Wherever its writer died, nobody is blamed who was not counted twice at one place.
TEST(Journal, ADeathWhileItIsCountedBlamesNobodyElse) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), {});
  job.blame("x", 3, 4);
  const bool traced = single_step([&] { job.blame("y", 3, 5); },
                                  [&] { ASSERT_FALSE(job.blamed()) << "at another place"; });
  if (!traced) GTEST_SKIP() << "this system does not let a process be traced";
  EXPECT_EQ(job.suspicions(), 1U);
  std::set<uint32_t> counts;
  single_step([&] { job.blame("y", 3, 5); }, [&] { counts.insert(job.suspicions()); });
  EXPECT_EQ(counts, (std::set<uint32_t>{1, 2}));
  EXPECT_TRUE(job.blamed());
}

TEST(Journal, ForgetsWhatAJobWasAcquittedOf) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(job.is_suspect());
    job.suspect("it was there", false);
    EXPECT_TRUE(job.is_suspect());
    EXPECT_FALSE(job.blamed());
    job.acquit();
    EXPECT_FALSE(job.suspected());
  }
}

TEST(Journal, TellsOfTheDeviceWhileTheRequestThatItEndedIsThePresentOne) {
  const JournalFile file;
  const auto journal = file.map().value();
  JobJournal job = journal->job(0);
  job.open(JobId(1), {});
  EXPECT_FALSE(job.suspected());
  job.begin({.link = 1, .sequence = 1});
  job.enter_commit();
  job.suspect("it fell over", false);
  EXPECT_EQ(job.suspected(), "it fell over");
  job.end({}, true, Duration(1));
  EXPECT_FALSE(job.suspected()) << "what comes now has other reasons";
}

}  // namespace
}  // namespace laneway::service
