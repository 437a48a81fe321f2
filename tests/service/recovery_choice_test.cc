#include "service/worker/recovery_choice.h"

#include <gtest/gtest.h>

namespace laneway::service {
namespace {

constexpr Duration ms(int64_t n) { return milliseconds(n); }

TEST(RecoveryChoice, UndoWhereItIsWithinTheBudget) {
  const auto choice = choose_recovery(
      {.iteration = ms(100), .undo = microseconds(1500), .snapshot = ms(1), .inputs = Duration()});
  EXPECT_EQ(choice.method, RecoveryMethod::undo);
  EXPECT_DOUBLE_EQ(choice.share, 0.03) << "copies cost an iteration twice what they take";
  EXPECT_EQ(choice.redo, Duration()) << "nothing is run again but what was under way";
}

TEST(RecoveryChoice, AShortIterationHasAFixedBudget) {
  const RecoveryCosts costs{.iteration = microseconds(50),
                            .undo = microseconds(3),
                            .snapshot = microseconds(3),
                            .inputs = Duration()};
  EXPECT_EQ(choose_recovery(costs).method, RecoveryMethod::undo);
  RecoveryCosts more = costs;
  more.undo = microseconds(5);
  EXPECT_EQ(choose_recovery(more).method, RecoveryMethod::snapshot);
}

// resnet18 as it was measured: undo takes a tenth of an iteration.
TEST(RecoveryChoice, TheShortestIntervalWithinTheBudget) {
  const RecoveryCosts costs{.iteration = ms(200), .undo = ms(20), .snapshot = ms(30), .inputs = {}};
  const auto choice = choose_recovery(costs);
  EXPECT_EQ(choice.method, RecoveryMethod::snapshot);
  EXPECT_EQ(choice.interval, 10U);
  EXPECT_LE(choice.share, 0.03);
  EXPECT_EQ(choice.redo, ms(2000));
}

TEST(RecoveryChoice, ShortIterationsAreSnapshotLessOften) {
  RecoveryCosts costs{
      .iteration = ms(2), .undo = ms(1), .snapshot = microseconds(60), .inputs = {}};
  EXPECT_EQ(choose_recovery(costs).interval, 8U) << "a fourth of the budget";
  EXPECT_LE(choose_recovery(costs).share, 0.0076);
  costs.snapshot = ms(1);
  EXPECT_EQ(choose_recovery(costs).interval, 50U) << "as many as take 100 ms to run again";
  costs.snapshot = ms(4);
  EXPECT_EQ(choose_recovery(costs).interval, 134U) << "the budget is kept";
}

TEST(RecoveryChoice, CopiesOfInputsCountToo) {
  const RecoveryCosts costs{
      .iteration = ms(100), .undo = ms(50), .snapshot = ms(30), .inputs = ms(2)};
  const auto choice = choose_recovery(costs);
  EXPECT_EQ(choice.interval, 60U);
  EXPECT_LE(choice.share, 0.03);
}

TEST(RecoveryChoice, InputsThatCostMoreThanTheBudgetLeaveTheCheaperWay) {
  RecoveryCosts costs{.iteration = ms(100), .undo = ms(8), .snapshot = ms(30), .inputs = ms(20)};
  EXPECT_EQ(choose_recovery(costs).method, RecoveryMethod::undo);
  costs.undo = ms(40);
  EXPECT_EQ(choose_recovery(costs).method, RecoveryMethod::snapshot);
}

TEST(RecoveryChoice, ReadsWhatAServiceIsTold) {
  EXPECT_FALSE(parse_recovery("").value());
  EXPECT_EQ(parse_recovery("undo").value()->method, RecoveryMethod::undo);
  EXPECT_EQ(parse_recovery("snapshot:12").value()->method, RecoveryMethod::snapshot);
  EXPECT_EQ(parse_recovery("snapshot:12").value()->interval, 12U);
  for (const char* text :
       {"redo", "snapshot", "snapshot:", "snapshot:0", "snapshot:-1", "snapshot:1x", "undo "}) {
    const auto refused = parse_recovery(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_NE(refused.error().message.find("snapshot:INTERVAL"), std::string::npos);
  }
}

}  // namespace
}  // namespace laneway::service
