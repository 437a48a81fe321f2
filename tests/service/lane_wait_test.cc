// Shows what ends the wait of a lane's thread: an arrival, and a request of the job that it
// follows. Each comes when the thread is inside of the wait; a wake-up that is lost shows as a test
// that does not end.
#include "service/worker/lanes/lane_wait.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "service/worker/common/thread_team.h"
#include "tests/service/link_rig.h"

namespace laneway::service {
namespace {

constexpr Duration kForever = seconds(300);  // only a hang meets it
constexpr int kRounds = 100;                 // of waits that spin, and as many that sleep at once

class LaneWaitTest : public ::testing::Test {
 protected:
  BookkeepingMutex& mutex() { return rig_.context().mutex; }

  void follow(const JobHandle& job) {
    const BookkeepingLock lock(mutex());
    wait_.follow(job);
  }

  // A lane's thread waits until `over` holds; `wake` is called, without the mutex, once it waits. A
  // wait with a limit of time does not spin.
  void run(bool for_requests, std::optional<Duration> most, const std::function<bool()>& over,
           const std::function<void()>& wake) {
    bool waits = false;
    CondVar began;
    std::thread lane([&] {
      const BookkeepingLock lock(mutex());
      waits = true;
      began.notify_all();
      while (!over()) wait_.wait(for_requests, most);
    });
    {
      const BookkeepingLock lock(mutex());
      while (!waits) mutex().wait(began);
    }
    wake();
    lane.join();
  }

  // What wakes the thread is that something arrived.
  void wake_by_arrival(bool for_requests) {
    for (int i = 0; i < 2 * kRounds; ++i) {
      bool there = false;
      run(
          for_requests, i % 2 == 0 ? std::nullopt : std::optional(kForever), [&] { return there; },
          [&] {
            const BookkeepingLock lock(mutex());
            there = true;
            wait_.arrived();
          });
    }
  }

  const SteadyClock clock_{};
  testing::LinkRig rig_{clock_};
  LaneWait wait_{rig_.context(), LaneId(1)};
};

TEST_F(LaneWaitTest, AnArrivalEndsIt) { wake_by_arrival(/*for_requests=*/false); }

TEST_F(LaneWaitTest, AnArrivalEndsAWaitForRequests) {
  const JobHandle job = rig_.make_job(1);
  const auto pair = rig_.add_link(*job, 1);
  follow(job);
  wake_by_arrival(/*for_requests=*/true);
}

TEST_F(LaneWaitTest, ARequestEndsIt) {
  const JobHandle job = rig_.make_job(1);
  const auto quiet = rig_.add_link(*job, 1);
  auto pair = rig_.add_link(*job, 2);
  follow(job);
  RingServer& ring = *pair.link->ring;
  for (int i = 0; i < 2 * kRounds; ++i) {
    run(
        /*for_requests=*/true, i % 2 == 0 ? std::nullopt : std::optional(kForever),
        [&] { return ring.ready(); }, [&] { pair.submit(); });
    const auto request = ring.take();
    ASSERT_TRUE(request.has_value());
    ring.answer(request->sequence, {}, Duration());
    ring.publish(request->sequence);
  }
}

TEST_F(LaneWaitTest, ARequestOfALinkThatJoinedMeanwhileEndsIt) {
  const JobHandle job = rig_.make_job(1);
  const auto quiet = rig_.add_link(*job, 1);
  follow(job);
  std::optional<testing::LinkRig::Pair> pair;
  run(
      /*for_requests=*/true, kForever, [&] { return pair && pair->link->ring->ready(); },
      [&] {
        auto joined = rig_.add_link(*job, 2);
        {
          const BookkeepingLock lock(mutex());
          pair = std::move(joined);
          wait_.add(*pair->link);
          wait_.arrived();
        }
        pair->submit();
      });
}

TEST_F(LaneWaitTest, ARequestOfTheNextTurnsJobEndsIt) {
  const JobHandle one = rig_.make_job(1);
  const JobHandle two = rig_.make_job(2);
  const auto first = rig_.add_link(*one, 1);
  auto second = rig_.add_link(*two, 2);
  follow(one);
  run(
      /*for_requests=*/true, kForever, [&] { return second.link->ring->ready(); },
      [&] {
        {
          const BookkeepingLock lock(mutex());
          wait_.unfollow(/*others_wait=*/true);
          wait_.follow(two);
          wait_.arrived();
        }
        second.submit();
      });
}

TEST_F(LaneWaitTest, WhoeverExpectsATurnLooksForItByItself) {
  const JobHandle job = rig_.make_job(1);
  const BookkeepingLock lock(mutex());
  int looks = 0;
  rig_.on_look([&] {
    ++looks;  // the first one of a few hundred us, of which a busy machine may leave no second one
    const BookkeepingLock inner(mutex());  // it is free while the thread looks
    wait_.follow(job);
    wait_.arrived();
  });
  wait_.follow(job);
  wait_.unfollow(/*others_wait=*/true);
  wait_.rest(/*for_requests=*/false, {});
  EXPECT_EQ(looks, 1);
  wait_.unfollow(/*others_wait=*/false);
  // Nobody waited for the lane: nothing comes soon, and the thread sleeps at once.
  std::thread other([&] {
    const BookkeepingLock inner(mutex());
    wait_.arrived();
  });
  wait_.rest(/*for_requests=*/false, {});
  EXPECT_EQ(looks, 1);
  mutex().unlock();
  other.join();
  mutex().lock();
}

TEST_F(LaneWaitTest, AnotherLaneThatBeginsToComputeWithATeamWakesOneThatKeepsOne) {
  {
    const BookkeepingLock lock(mutex());
    rig_.context().teams.kept(LaneId(1), wait_);
  }
  bool began = false;
  run(
      /*for_requests=*/false, kForever, [&] { return began; },
      [&] {
        const BookkeepingLock lock(mutex());
        began = true;
        rig_.context().teams.begin(LaneId(2));
      });
}

class LaneWaitTeam : public ::testing::Test {
 protected:
  LaneTeams& teams() { return rig_.context().teams; }

  ManualClock clock_;
  testing::LinkRig rig_{clock_};
  LaneWait wait_{rig_.context(), LaneId(1)};
};

TEST_F(LaneWaitTeam, IsEndedAtOnceWithoutATurnWhileAnotherLaneComputesWithOne) {
  const BookkeepingLock lock(rig_.context().mutex);
  wait_.team_used();
  teams().begin(LaneId(2));
  EXPECT_TRUE(wait_.keeps_team());
  wait_.rest(/*for_requests=*/false, {});
  EXPECT_FALSE(wait_.keeps_team());
  teams().begin(LaneId(3));  // wakes nobody
}

TEST_F(LaneWaitTeam, BesideEagerWorkIsEndedSoonThoughItsOwnLaneComputes) {
  const BookkeepingLock lock(rig_.context().mutex);
  rig_.context().shares_process = true;
  wait_.team_used();
  teams().begin(LaneId(1));
  teams().begin(LaneId(2));
  teams().end(LaneId(2));
  clock_.advance(kTeamRestShared - microseconds(1));
  wait_.rest(/*for_requests=*/false, {});
  EXPECT_TRUE(wait_.keeps_team());
  clock_.advance(microseconds(1));
  // Nothing arrives: this returns because the team was ended, and a second call would not.
  wait_.rest(/*for_requests=*/false, {});
  EXPECT_FALSE(wait_.keeps_team());
}

TEST_F(LaneWaitTeam, IsEndedAfterAnyTimeWhenAnotherLaneBegins) {
  BookkeepingMutex& mutex = rig_.context().mutex;
  mutex.lock();
  wait_.team_used();
  clock_.advance(seconds(1000));
  bool ended = false;
  std::thread lane([&] {
    const BookkeepingLock inner(mutex);
    while (wait_.keeps_team()) wait_.rest(/*for_requests=*/false, {});
    ended = true;
  });
  mutex.unlock();
  const auto begin = [&] {
    const BookkeepingLock outer(mutex);
    if (!ended) teams().begin(LaneId(2));  // it waits by now, or will find that
    return !ended;
  };
  while (begin()) std::this_thread::yield();
  lane.join();
}

TEST_F(LaneWaitTeam, OfAnOpenTurnIsKeptForAsLongAsAClientTakes) {
  const JobHandle job = rig_.make_job(1);
  const BookkeepingLock lock(rig_.context().mutex);
  wait_.follow(job);
  wait_.team_used();
  teams().begin(LaneId(2));
  clock_.advance(kTeamRestBeside - microseconds(1));
  wait_.rest(/*for_requests=*/false, {});
  EXPECT_TRUE(wait_.keeps_team());
  clock_.advance(microseconds(1));
  wait_.rest(/*for_requests=*/false, {});
  EXPECT_FALSE(wait_.keeps_team());
  wait_.unfollow(/*others_wait=*/false);
}

}  // namespace
}  // namespace laneway::service
