// What transfers take follows what was measured lately, each way by itself.
#include "policies/transfer_rates.h"

#include <gtest/gtest.h>

namespace laneway::policies {
namespace {

TEST(TransferRates, AreAGibibyteASecondUntilSomethingWasMeasured) {
  const TransferRates rates;
  EXPECT_EQ(rates.time(Way::from_spill, gib(3)), seconds(3));
  EXPECT_EQ(rates.there_and_back(mib(512)), seconds(1));
  EXPECT_EQ(rates.time(Way::to_store, Bytes()), Duration());
}

TEST(TransferRates, FollowWhatWasMeasuredOfThatWay) {
  TransferRates rates;
  for (int i = 0; i < 8; ++i) rates.learn(Way::to_store, gib(1), milliseconds(100));
  const Duration fast = rates.time(Way::to_store, gib(2));
  EXPECT_GT(fast, milliseconds(195));
  EXPECT_LT(fast, milliseconds(205));
  EXPECT_EQ(rates.time(Way::from_store, gib(2)), seconds(2)) << "not measured";
  for (int i = 0; i < 8; ++i) rates.learn(Way::to_store, gib(1), seconds(10));
  EXPECT_GT(rates.time(Way::to_store, gib(1)), seconds(9)) << "it got slow";
}

TEST(TransferRates, TakeNoNonsense) {
  TransferRates rates;
  rates.learn(Way::first_in, Bytes(), seconds(9));
  rates.learn(Way::first_in, Bytes(-5), seconds(9));
  rates.learn(Way::first_in, gib(1), Duration(-1));
  EXPECT_EQ(rates.time(Way::first_in, gib(1)), seconds(1));
  for (int i = 0; i < 100; ++i) rates.learn(Way::first_in, Bytes(INT64_MAX), Duration(INT64_MAX));
  EXPECT_GE(rates.time(Way::first_in, Bytes(INT64_MAX)), Duration());
}

}  // namespace
}  // namespace laneway::policies
