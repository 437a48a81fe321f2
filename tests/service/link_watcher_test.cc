// Shows that the watcher tells of the jobs whose links have a request, and of no others, with
// clients that submit to rings of their own.
#include "service/worker/jobs/link_watcher.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/mutex.h"
#include "tests/service/link_rig.h"

namespace laneway::service {
namespace {

class LinkWatcherTest : public ::testing::Test {
 protected:
  LinkWatcherTest() {
    const BookkeepingLock lock(rig_.context().mutex);
    started_ = watcher_.start();
  }
  void TearDown() override { watcher_.stop(); }

  // A job with one link that the watcher knows; its number is the job's.
  testing::LinkRig::Pair join(const JobHandle& job) {
    auto pair = rig_.add_link(*job, static_cast<uint32_t>(job->id.value()));
    const BookkeepingLock lock(rig_.context().mutex);
    watcher_.add(*pair.link, job);
    return pair;
  }
  bool watch(WorkerJob& job) {
    const BookkeepingLock lock(rig_.context().mutex);
    return watcher_.watch(job);
  }
  // The next job that the watcher told of.
  JobId next_attended() {
    MutexLock lock(mutex_);
    while (attended_.empty()) changed_.wait(mutex_);
    const JobId job = attended_.front();
    attended_.erase(attended_.begin());
    return job;
  }

  const SteadyClock clock_{};
  testing::LinkRig rig_{clock_};
  Status started_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<JobId> attended_ LW_GUARDED_BY(mutex_);
  LinkWatcher watcher_{rig_.context().mutex, [this](const JobHandle& job) {
                         MutexLock lock(mutex_);
                         attended_.push_back(job->id);
                         changed_.notify_all();
                       }};
};

TEST_F(LinkWatcherTest, TellsOfTheJobWhoseClientSubmits) {
  ASSERT_TRUE(started_);
  const JobHandle one = rig_.make_job(1);
  const JobHandle two = rig_.make_job(2);
  const auto first = join(one);
  auto second = join(two);
  EXPECT_FALSE(watch(*one));
  EXPECT_FALSE(watch(*two));
  second.submit();
  EXPECT_EQ(next_attended(), JobId(2));
}

TEST_F(LinkWatcherTest, ARequestThatIsThereAlreadyIsSaidAtOnceAndNothingIsWatched) {
  const JobHandle job = rig_.make_job(1);
  auto pair = join(job);
  pair.submit();
  EXPECT_TRUE(watch(*job));
  const BookkeepingLock lock(rig_.context().mutex);
  EXPECT_FALSE(pair.link->watched);
}

TEST_F(LinkWatcherTest, WhatIsNotWatchedAnyMoreIsNotTold) {
  const JobHandle one = rig_.make_job(1);
  const JobHandle two = rig_.make_job(2);
  auto first = join(one);
  auto second = join(two);
  EXPECT_FALSE(watch(*one));
  EXPECT_FALSE(watch(*two));
  {
    const BookkeepingLock lock(rig_.context().mutex);
    watcher_.unwatch(*one);
  }
  first.submit();
  second.submit();
  EXPECT_EQ(next_attended(), JobId(2)) << "the first job's request came before it";
}

TEST_F(LinkWatcherTest, AJobThatTakesNoWorkIsNotWatched) {
  const JobHandle job = rig_.make_job(1);
  auto pair = join(job);
  pair.submit();
  {
    const BookkeepingLock lock(rig_.context().mutex);
    job->closing = true;
  }
  EXPECT_FALSE(watch(*job));
  const BookkeepingLock lock(rig_.context().mutex);
  EXPECT_FALSE(pair.link->watched);
}

TEST_F(LinkWatcherTest, EveryLinkHasAKeyOfItsOwn) {
  const BookkeepingLock lock(rig_.context().mutex);
  const uint64_t first = watcher_.next_key();
  EXPECT_NE(first, 0U) << "0 is how an EventPoll says that it was woken";
  EXPECT_NE(watcher_.next_key(), first);
}

}  // namespace
}  // namespace laneway::service
