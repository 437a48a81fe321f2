// Shows whom a successor blames for a device that failed: who was alone, or there twice within what
// is remembered; and that it hears what the device said.
#include <gtest/gtest.h>

#include <string>

#include "tests/service/journal/journal_file.h"

namespace laneway::service {
namespace {

using testing::JournalFile;

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
