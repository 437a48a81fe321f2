// Shows that changes are not noted in vain: when one kind is lost, the simulation finds somebody
// who waits and could go on, within a bounded number of worlds. Not of regions, order, lanes and
// contexts: without them the core decides otherwise or later, and no rule of the checkers breaks
// (tests/lanes/changes_test.cc has scenes of order and lanes).
#include "lanes/state/changes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/simulation/world.h"

namespace laneway::simulation {
namespace {

using lanes::Changed;

// Of each kind of world, in which that must have happened; it takes 114.
constexpr uint64_t kWorlds = 200;

bool is_found(Changed lost, std::string* where) {
  for (uint64_t seed = 1; seed <= kWorlds; ++seed) {
    for (const Kind kind : {Kind::any, Kind::exchange}) {
      const Outcome outcome = World(seed, kind, lost).run();
      if (outcome.violation.empty()) continue;
      *where =
          std::to_string(seed) + (kind == Kind::any ? ": " : " of exchange: ") + outcome.violation;
      return true;
    }
  }
  return false;
}

class Lost : public ::testing::TestWithParam<Changed> {};

TEST_P(Lost, ChangesOfOneKindLetSomebodyWaitForEver) {
  std::string where;
  EXPECT_TRUE(is_found(GetParam(), &where));
  std::printf("in world %s\n", where.c_str());
}

INSTANTIATE_TEST_SUITE_P(Changes, Lost,
                         ::testing::Values(Changed::pool, Changed::jobs, Changed::held,
                                           Changed::boundary, Changed::bounds, Changed::time,
                                           Changed::queue, Changed::ended, Changed::spread,
                                           Changed::lane, Changed::fit));

}  // namespace
}  // namespace laneway::simulation
