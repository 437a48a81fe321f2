// Events of one instant: whoever gets a turn, or memory, was chosen among all who were there,
// whatever the order of their messages; and nobody is asked for what he has done already.
#include <gtest/gtest.h>

#include <vector>

#include "policies/registry.h"
#include "tests/lanes/scheduler_scene.h"

namespace laneway::lanes {
namespace {

class InstantTest : public SchedulerTest {
 protected:
  std::vector<Action> send_all(const std::vector<Event>& events) {
    now_ = now_ + microseconds(1);
    return scheduler_->handle(now_, events);
  }
  static TurnEnded ended(TurnId turn, bool more_ready) {
    return {.turn = turn,
            .end = more_ready ? TurnEnd::budget : TurnEnd::idle,
            .iterations = 1,
            .busy = microseconds(10),
            .more_ready = more_ready,
            .ephemeral = {}};
  }
  // In lane 1, in the pool, with nothing to run.
  void settle_in(uint64_t id, int32_t priority = 0) {
    offer_urgent(id, 5, 10, priority);
    place(id);
  }
};

TEST_F(InstantTest, TheTurnGoesToTheFirstOfAllWhoAreReadyThen) {
  make(100, 1, 0, policies::make_policy("priority").value());
  settle_in(1);
  settle_in(2, /*priority=*/1);
  settle_in(3, /*priority=*/2);
  const std::vector<Action> actions = send_all({WorkReady{JobId(2)}, WorkReady{JobId(3)}});
  const auto granted = of<GrantTurn>(actions);
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_EQ(granted[0].turn.job, JobId(3)) << "though the other's message came before";
  EXPECT_TRUE(of<RecallTurn>(actions).empty());
  const auto next = of<GrantTurn>(
      send_all({ended(granted[0].turn.id, /*more_ready=*/false), WorkReady{JobId(1)}}));
  EXPECT_EQ(next.at(0).turn.job, JobId(2));
}

TEST_F(InstantTest, AJobWhoseTurnEndsCompetesWithWhoComesThen) {
  make(100, 1, 0, policies::make_policy("priority").value());
  settle_in(1);
  settle_in(2, /*priority=*/1);
  const TurnId first = of<GrantTurn>(ready(1)).at(0).turn.id;
  const std::vector<Action> actions =
      send_all({ended(first, /*more_ready=*/true), WorkReady{JobId(2)}});
  EXPECT_EQ(of<GrantTurn>(actions).at(0).turn.job, JobId(2));
  EXPECT_TRUE(of<RecallTurn>(actions).empty());
}

TEST_F(InstantTest, MemoryThatAllLeaveTogetherGoesToTheFirstInTheQueue) {
  make(100, 2, 0, policies::make_policy("fifo:admit=fit").value());
  start(1, 35, 10);
  start(2, 35, 10);
  const std::vector<Action> asked = offer(3, 80, 10);  // needs what both leave
  offer(4, 20, 10);                                    // would fit in what one of them leaves
  const std::vector<Action> actions = send_all({JobEnded{JobId(1)}, JobEnded{JobId(2)}});
  EXPECT_TRUE(of<AdmitJob>(actions).empty()) << "their turns are open";
  std::vector<Event> ends;
  for (const RecallTurn& recall : of<RecallTurn>(asked)) {
    ends.emplace_back(ended(recall.turn, /*more_ready=*/false));
  }
  ASSERT_EQ(ends.size(), 2u);
  const auto admitted = of<AdmitJob>(send_all(ends));
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].job, JobId(3));
}

TEST_F(InstantTest, ATurnThatHasEndedIsNotRecalledForWhatCameBefore) {
  make(100, 1);
  const TurnId turn = of<GrantTurn>(start(1, 10, 10)).at(0).turn.id;
  const NeedChanged larger{JobId(1), units(30)};
  const std::vector<Action> actions = send_all({larger, ended(turn, /*more_ready=*/true)});
  EXPECT_TRUE(of<RecallTurn>(actions).empty());
  const auto granted = of<GrantTurn>(actions);
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_EQ(granted[0].turn.envelope.ceiling, units(30));
  // While it is open it is recalled, with or without other events.
  const NeedChanged largest{JobId(1), units(50)};
  EXPECT_EQ(of<RecallTurn>(send_all({largest, WorkReady{JobId(1)}})).size(), 1u);
}

TEST_F(InstantTest, AJobMayComeAndGoInOne) {
  make(100, 2);
  JobOffered job;
  job.job = JobId(1);
  job.session = SessionId(1);
  job.persistent = units(10);
  job.ephemeral = units(10);
  const std::vector<Action> actions = send_all({job, WorkReady{JobId(1)}, JobEnded{JobId(1)}});
  EXPECT_TRUE(of<AdmitJob>(actions).empty());
  EXPECT_EQ(scheduler_->pool().claimed(), Bytes());
  EXPECT_TRUE(scheduler_->snapshot().jobs.empty());
}

TEST_F(InstantTest, NoEventsAreNoChange) {
  make(100, 1);
  start(1, 10, 10);
  EXPECT_TRUE(send_all({}).empty());
}

}  // namespace
}  // namespace laneway::lanes
