// Shows what the stay rule promises (docs/design/residency.md), by sums of this test's own over
// drawn phases: moving takes at most a twentieth of the time, an idle stretch costs at most twice
// what the best choice made with hindsight does, and who takes turns waits for one stay and one
// switch of each other one.
#include "lanes/state/stay_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "lanes/state/core_state.h"
#include "lanes/state/room_trial.h"
#include "tests/support/seed.h"

namespace laneway::lanes {
namespace {

Duration any_time(Random& random) {
  // Over seven orders of magnitude.
  int64_t most = 1'000;
  for (uint64_t i = random.below(7); i > 0; --i) most *= 10;
  return Duration(random.between(1, most));
}

TEST(StayRule, AnIdleStretchCostsAtMostTwiceTheBestChoiceMadeWithHindsight) {
  Random random(testing::seed_from_environment(2101));
  int left = 0;
  for (int round = 0; round < 100'000; ++round) {
    const TimePoint idle_since(random.between(0, 1'000'000));
    const Duration stretch = any_time(random);
    const Duration a_switch = any_time(random);
    const TimePoint leaves = leaves_from(
        {.placed_at = TimePoint(), .used_at = idle_since, .a_switch = a_switch, .idle = true});
    const Duration waits = leaves - idle_since;
    const bool switches = waits < stretch;
    const Duration cost = switches ? waits + a_switch : stretch;
    ASSERT_LE(cost.ns(), 2 * std::min(stretch, a_switch).ns()) << "round " << round;
    left += switches;
  }
  EXPECT_GT(left, 10'000);
}

// Jobs that always have work and take turns in a pool for one of them; every image has another
// size, so that each switch has another length.
TEST(StayRule, MovingTakesAtMostATwentiethAndNobodyWaitsLongerThanOneStayOfEach) {
  Random random(testing::seed_from_environment(2102));
  for (int round = 0; round < 300; ++round) {
    const size_t jobs = 2 + random.below(6);
    std::vector<Duration> out(jobs);
    std::vector<Duration> in(jobs);
    for (size_t job = 0; job < jobs; ++job) {
      out[job] = any_time(random);
      in[job] = any_time(random);
    }
    std::vector<TimePoint> waits_since(jobs);
    TimePoint now;
    Duration moved;
    Duration longest_stay;
    Duration longest_switch;
    for (int turn = 0; turn < 200; ++turn) {
      const size_t inside = static_cast<size_t>(turn) % jobs;
      const size_t next = (inside + 1) % jobs;
      const Duration a_switch = out[inside] + in[next];
      const TimePoint leaves =
          leaves_from({.placed_at = now, .used_at = now, .a_switch = a_switch, .idle = false});
      longest_stay = std::max(longest_stay, leaves - now);
      longest_switch = std::max(longest_switch, a_switch);
      now = leaves + a_switch;
      moved += a_switch;
      ASSERT_LE(moved.ns() * 20, (now - TimePoint()).ns()) << "round " << round;
      const Duration waited = now - waits_since[next];
      waits_since[inside] = now;                        // it has left
      if (turn + 1 < static_cast<int>(jobs)) continue;  // its first time in
      const auto others = static_cast<int64_t>(jobs) - 1;
      ASSERT_LE(waited.ns(), others * (longest_stay + longest_switch).ns()) << "round " << round;
    }
  }
}

TEST(StayRule, WhereCopiesCostNothingWhoHasWorkStaysForATurnAllTheSame) {
  const Stay busy{.placed_at = TimePoint(5), .used_at = TimePoint(9), .a_switch = Duration()};
  EXPECT_EQ(leaves_from(busy), TimePoint(5) + kLeastBusyStay);
  Stay idle = busy;
  idle.idle = true;
  EXPECT_EQ(leaves_from(idle), TimePoint(9));
}

TEST(StayRule, TheLongestSwitchDoesNotOverflow) {
  const Stay stay{
      .placed_at = TimePoint(), .used_at = TimePoint(), .a_switch = Duration(INT64_MAX)};
  EXPECT_GT(leaves_from(stay), TimePoint() + seconds(1'000'000));
}

// A switch costs the way out only where no copy lies outside already, and the way in of whoever
// comes, without what stayed of it.
TEST(StayRule, ASwitchIsTheWayOutWithoutACopyAndTheWayInOfWhatIsNotThereYet) {
  SchedulerConfig config;
  config.capacity = mib(2);
  config.store = mib(2);
  CoreState core(config);
  const auto add = [&](uint64_t id, Bytes image) -> Job& {
    JobOffered offer;
    offer.job = JobId(id);
    offer.persistent = image;
    return core.jobs.add(core.new_job(offer));
  };
  Job& leaves = add(1, kib(512));
  const Job& comes = add(2, mib(1));
  const policies::TransferRates& rates = core.view.transfers();
  const Duration out = rates.time(policies::Way::to_store, kib(512));
  const policies::AdmitDecision anywhere;
  const Wish wish{.job = comes, .where = &anywhere};
  EXPECT_EQ(switch_time(core, leaves, wish), out + rates.time(policies::Way::first_in, mib(1)));
  leaves.image.clean = true;
  EXPECT_EQ(switch_time(core, leaves, wish), rates.time(policies::Way::first_in, mib(1)));
  leaves.image.clean = false;
  EXPECT_EQ(switch_time(core, leaves, {.job = comes}), out) << "its lane grows: nobody comes";
  Bytes offset;
  ASSERT_EQ(core.pool.place_image(JobId(2), mib(1), &offset), Room::done);
  core.pool.keep_prefix(JobId(2), kib(256));
  EXPECT_EQ(switch_time(core, leaves, wish), out + rates.time(policies::Way::first_in, kib(768)));
}

}  // namespace
}  // namespace laneway::lanes
