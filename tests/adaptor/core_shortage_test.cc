// Shows when barriers are made to sleep: both the thread that computes and the machine must have
// waited for cores; and when they spin again.
#include "adaptor/scope/core_shortage.h"

#include <gtest/gtest.h>

namespace laneway::adaptor {
namespace {

CoreShortage::Sums after_ms(int64_t at, int64_t thread, int64_t machine) {
  return {TimePoint(milliseconds(at).ns()), milliseconds(thread), milliseconds(machine)};
}

TEST(CoreShortage, NeedsAThreadThatWaitedAndAMachineThatDid) {
  CoreShortage cores;
  EXPECT_FALSE(cores.look(after_ms(1'000, 900, 900))) << "the first look knows no beginning";
  EXPECT_FALSE(cores.look(after_ms(1'100, 950, 900))) << "only the thread";
  EXPECT_FALSE(cores.look(after_ms(1'200, 950, 1'000))) << "only the machine";
  EXPECT_TRUE(cores.look(after_ms(1'300, 1'000, 1'100)));
  cores.forget();
  EXPECT_FALSE(cores.look(after_ms(1'400, 1'100, 1'200)));
}

TEST(CoreShortage, IsLookedForAtMostOnceInItsPeriod) {
  CoreShortage cores;
  EXPECT_TRUE(cores.due(TimePoint(1)));
  (void)cores.look(after_ms(1'000, 0, 0));
  EXPECT_FALSE(cores.due(after_ms(1'099, 0, 0).at));
  EXPECT_TRUE(cores.due(after_ms(1'100, 0, 0).at));
}

TEST(CoreShortage, EndsWhenTheMachineHardlyWaits) {
  CoreShortage cores;
  EXPECT_FALSE(cores.look_for_end(after_ms(1'000, 0, 0)));
  EXPECT_FALSE(cores.look_for_end(after_ms(1'500, 0, 200))) << "40 %: neither begins nor ends it";
  EXPECT_TRUE(cores.look_for_end(after_ms(2'000, 0, 250)));
}

}  // namespace
}  // namespace laneway::adaptor
