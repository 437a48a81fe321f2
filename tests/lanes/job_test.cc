// The job's and the lane's state machines: the tables say what they should, every state can be
// reached and left as the design says, and what later work needs is refused by name.
#include "lanes/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lanes/lane.h"

namespace laneway::lanes {
namespace {

std::vector<JobState> all_states() {
  std::vector<JobState> states;
  for (size_t i = 0; i < kJobStateCount; ++i) states.push_back(static_cast<JobState>(i));
  return states;
}

bool is_final(JobState state) {
  return state == JobState::finished || state == JobState::failed || state == JobState::cancelled;
}

TEST(JobStates, HaveTheNamesThatStatusShows) {
  std::vector<std::string> names;
  for (const JobState state : all_states()) names.emplace_back(job_state_name(state));
  EXPECT_THAT(names, testing::ElementsAre("waiting", "staged", "resident", "running", "paused",
                                          "held", "evicting", "away", "restoring", "quarantined",
                                          "finished", "failed", "cancelled"));
}

TEST(JobStates, NothingLeavesAFinalStateAndEveryOtherCanEnd) {
  for (const JobState from : all_states()) {
    bool ends = false;
    for (const JobState to : all_states()) {
      const Transition transition = job_transition(from, to);
      if (is_final(from)) {
        EXPECT_EQ(transition, Transition::impossible) << job_state_name(from);
      }
      if (from == to) {
        EXPECT_EQ(transition, Transition::impossible) << job_state_name(from);
      }
      ends = ends || (is_final(to) && transition != Transition::impossible);
    }
    // A running job ends by way of the state that it goes to next.
    const bool on_the_way = from == JobState::running;
    EXPECT_TRUE(ends || is_final(from) || on_the_way) << job_state_name(from);
  }
}

TEST(JobStates, StatesOfLaterWorkAreRefusedByName) {
  const std::set<JobState> later = {JobState::paused};
  for (const JobState from : all_states()) {
    for (const JobState to : all_states()) {
      if (later.count(to) == 0 && later.count(from) == 0) continue;
      EXPECT_NE(job_transition(from, to), Transition::allowed)
          << job_state_name(from) << " to " << job_state_name(to);
    }
  }
  const Status pause = check_job_transition(JobState::running, JobState::paused);
  ASSERT_FALSE(pause.ok());
  EXPECT_EQ(pause.error().code, ErrorCode::unsupported);
  EXPECT_THAT(pause.error().message,
              testing::AllOf(testing::HasSubstr("'running'"), testing::HasSubstr("'paused'")));
  EXPECT_EQ(check_job_transition(JobState::waiting, JobState::running).error().code,
            ErrorCode::internal);
  EXPECT_TRUE(check_job_transition(JobState::waiting, JobState::staged).ok());
}

TEST(JobStatesDeathTest, AnImpossibleMoveStopsTheProcess) {
  Job job;
  job.view.id = JobId(7);
  EXPECT_DEATH(job.move_to(JobState::running), "job 7.*'waiting' to 'running'");
}

TEST(LaneStates, GoRoundFromClosedToClosed) {
  using enum LaneState;
  const std::set<std::pair<LaneState, LaneState>> allowed = {{closed, idle},  {idle, granted},
                                                             {idle, closed},  {granted, recalled},
                                                             {granted, idle}, {recalled, idle}};
  for (const LaneState from : {closed, idle, granted, recalled}) {
    for (const LaneState to : {closed, idle, granted, recalled}) {
      EXPECT_EQ(lane_transition_allowed(from, to), allowed.count({from, to}) > 0)
          << lane_state_name(from) << " to " << lane_state_name(to);
    }
  }
}

}  // namespace
}  // namespace laneway::lanes
