#include "service/worker/jobs/recovery_choice.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace laneway::service {
namespace {

constexpr Duration ms(int64_t n) { return milliseconds(n); }

TEST(RecoveryChoice, UndoWhereItIsWithinTwoThirdsOfTheBudget) {
  RecoveryCosts costs{
      .iteration = ms(100), .undo = microseconds(1600), .snapshot = ms(1), .inputs = Duration()};
  const auto choice = choose_recovery(costs);
  EXPECT_EQ(choice.method, RecoveryMethod::undo);
  EXPECT_DOUBLE_EQ(choice.share, 0.02) << "copies cost an iteration a fourth more than they take";
  EXPECT_EQ(choice.redo, Duration()) << "nothing is run again but what was under way";
  costs.undo = microseconds(1601);
  EXPECT_EQ(choose_recovery(costs).method, RecoveryMethod::snapshot);
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

TEST(RecoveryChoice, TheShortestIntervalWithinTheAim) {
  const RecoveryCosts costs{.iteration = ms(100), .undo = ms(10), .snapshot = ms(8), .inputs = {}};
  const auto choice = choose_recovery(costs);
  EXPECT_EQ(choice.method, RecoveryMethod::snapshot);
  EXPECT_EQ(choice.interval, 5U) << "8 ms and a fourth, over 2 ms each";
  EXPECT_DOUBLE_EQ(choice.share, 0.02);
  EXPECT_EQ(choice.redo, ms(500));
}

TEST(RecoveryChoice, ALongReplayIsPaidForWithTheWholeBudget) {
  RecoveryCosts costs{.iteration = ms(300), .undo = ms(60), .snapshot = ms(48), .inputs = {}};
  EXPECT_EQ(choose_recovery(costs).interval, 7U) << "60 ms over 9 ms each, 2.1 s instead of 3 s";
  EXPECT_LE(choose_recovery(costs).share, 0.03);
  costs.iteration = ms(150);
  costs.snapshot = ms(33);
  EXPECT_EQ(choose_recovery(costs).interval, 13U) << "2 s, which costs less than the budget";
  costs.snapshot = ms(96);
  EXPECT_EQ(choose_recovery(costs).interval, 27U) << "the budget is kept, and 4 s are run again";
}

TEST(RecoveryChoice, ShortIterationsAreSnapshotLessOften) {
  RecoveryCosts costs{
      .iteration = ms(2), .undo = ms(1), .snapshot = microseconds(64), .inputs = {}};
  EXPECT_EQ(choose_recovery(costs).interval, 8U) << "a fourth of the aim";
  EXPECT_DOUBLE_EQ(choose_recovery(costs).share, 0.005);
  costs.snapshot = microseconds(640);
  EXPECT_EQ(choose_recovery(costs).interval, 50U) << "as many as take 100 ms to run again";
  costs.snapshot = ms(4);
  EXPECT_EQ(choose_recovery(costs).interval, 125U) << "the aim is kept";
}

TEST(RecoveryChoice, CopiesOfInputsCountToo) {
  const RecoveryCosts costs{
      .iteration = ms(100), .undo = ms(50), .snapshot = ms(16), .inputs = microseconds(800)};
  const auto choice = choose_recovery(costs);
  EXPECT_EQ(choice.interval, 20U) << "20 ms over the one that is left of 2 ms";
  EXPECT_DOUBLE_EQ(choice.share, 0.02);
}

TEST(RecoveryChoice, InputsThatCostMoreThanTheBudgetLeaveTheCheaperWay) {
  RecoveryCosts costs{.iteration = ms(100), .undo = ms(8), .snapshot = ms(30), .inputs = ms(20)};
  EXPECT_EQ(choose_recovery(costs).method, RecoveryMethod::undo);
  costs.undo = ms(40);
  EXPECT_EQ(choose_recovery(costs).method, RecoveryMethod::snapshot);
}

TEST(RecoveryChoice, ARotationComparesEachMethodWithEachOtherInBothOrders) {
  using enum RecoveryMethod;
  std::map<std::pair<RecoveryMethod, RecoveryMethod>, int> neighbours;
  std::map<RecoveryMethod, int> iterations;
  constexpr uint64_t kBlock = 5;
  constexpr uint64_t kRounds = 4;
  for (uint64_t i = 0; i < kRounds * 6 * kBlock; ++i) {
    ++iterations[rotated_method(i, kBlock)];
    if (i % kBlock == 0 && i > 0) {
      ++neighbours[{rotated_method(i - 1, kBlock), rotated_method(i, kBlock)}];
    } else if (i > 0) {
      EXPECT_EQ(rotated_method(i - 1, kBlock), rotated_method(i, kBlock)) << "within a block";
    }
  }
  for (const RecoveryMethod method : {none, undo, snapshot}) {
    EXPECT_EQ(iterations[method], static_cast<int>(kRounds * 2 * kBlock));
  }
  const int rounds = static_cast<int>(kRounds);
  EXPECT_EQ((neighbours[{none, undo}]), rounds);
  EXPECT_EQ((neighbours[{undo, none}]), rounds);
  EXPECT_EQ((neighbours[{undo, snapshot}]), rounds);
  EXPECT_EQ((neighbours[{snapshot, undo}]), rounds);
}

TEST(RecoveryChoice, ReadsWhatAServiceIsTold) {
  EXPECT_FALSE(parse_recovery("").value());
  EXPECT_EQ(parse_recovery("undo").value()->method, RecoveryMethod::undo);
  EXPECT_EQ(parse_recovery("snapshot:12").value()->method, RecoveryMethod::snapshot);
  EXPECT_EQ(parse_recovery("snapshot:12").value()->interval, 12U);
  EXPECT_EQ(parse_recovery("snapshot:12").value()->block, 0U);
  EXPECT_EQ(parse_recovery("rotate:70:7").value()->block, 70U);
  EXPECT_EQ(parse_recovery("rotate:70:7").value()->interval, 7U);
  for (const char* text :
       {"redo", "snapshot", "snapshot:", "snapshot:0", "snapshot:-1", "snapshot:1x", "undo ",
        "rotate:", "rotate:5", "rotate:0:1", "rotate:1:0", "rotate:1:2:3"}) {
    const auto refused = parse_recovery(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_NE(refused.error().message.find("snapshot:INTERVAL"), std::string::npos);
  }
}

}  // namespace
}  // namespace laneway::service
