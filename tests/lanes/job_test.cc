// The job's and the lane's state machines: the tables say what they should, every state can be
// reached and left as the design says.
#include "lanes/state/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lanes/state/lane.h"

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
                                          "held", "evicting", "away", "restoring", "moving",
                                          "quarantined", "finished", "failed", "cancelled"));
}

TEST(JobStates, NothingLeavesAFinalStateAndEveryOtherCanEnd) {
  for (const JobState from : all_states()) {
    bool ends = false;
    for (const JobState to : all_states()) {
      const bool allowed = job_transition_allowed(from, to);
      if (is_final(from) || from == to) {
        EXPECT_FALSE(allowed) << job_state_name(from);
      }
      ends = ends || (is_final(to) && allowed);
    }
    // A job with an open turn ends by way of the state that it goes to next.
    const bool on_the_way = from == JobState::running || from == JobState::paused;
    EXPECT_TRUE(ends || is_final(from) || on_the_way) << job_state_name(from);
  }
}

TEST(JobStates, OnlyARunningJobIsPaused) {
  for (const JobState from : all_states()) {
    EXPECT_EQ(job_transition_allowed(from, JobState::paused), from == JobState::running)
        << job_state_name(from);
  }
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
