// Every reason's sentence carries its arithmetic and a remedy, so that a user can act on it.
#include "lanes/state/reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace laneway::lanes {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Reason reason(ReasonCode code) {
  return {.code = code,
          .persistent = mib(300),
          .region = mib(200),
          .capacity = mib(448),
          .claimed = mib(400),
          .largest_free = mib(32),
          .position = 3};
}

TEST(Reason, LargerThanPoolShowsTheSumAndThePool) {
  EXPECT_THAT(reason_text(reason(ReasonCode::larger_than_pool)),
              AllOf(HasSubstr("300 MiB"), HasSubstr("200 MiB"), HasSubstr("500 MiB"),
                    HasSubstr("448 MiB"), HasSubstr("larger pool")));
}

TEST(Reason, WaitingReasonsShowThePositionAndWhatIsClaimed) {
  EXPECT_THAT(reason_text(reason(ReasonCode::pool_full)),
              AllOf(HasSubstr("position 3"), HasSubstr("400 MiB of the pool's 448 MiB")));
  EXPECT_THAT(reason_text(reason(ReasonCode::pool_fragmented)),
              AllOf(HasSubstr("one piece"), HasSubstr("32 MiB")));
  EXPECT_THAT(reason_text(reason(ReasonCode::lanes_exhausted)), HasSubstr("more lanes"));
  EXPECT_THAT(reason_text(reason(ReasonCode::region_too_small)), HasSubstr("200 MiB"));
}

TEST(Reason, WhoHoldsTheRoomIsNamedWithWhatWouldHelp) {
  Reason full = reason(ReasonCode::pool_full);
  full.holders.first = JobId(7);
  EXPECT_THAT(reason_text(full),
              AllOf(HasSubstr("are claimed, by job 7. It goes on when others end (`laneway kill`"),
                    HasSubstr("--staging")));
  full.holders = {JobId(7), JobId(2), JobId(9), 0};
  full.may_leave = true;
  EXPECT_THAT(reason_text(full), AllOf(HasSubstr("by jobs 7, 2 and 9. It goes on when others make "
                                                 "room: idle ones do soon"),
                                       HasSubstr("`laneway unload`")));
  full.holders.others = 4;
  EXPECT_THAT(reason_text(full), HasSubstr("most of it by jobs 7, 2, 9 and 4 others. It goes on"));
}

TEST(Reason, AJobThatIsAwayComesBackWithoutAnybodysEnd) {
  Reason full = reason(ReasonCode::pool_full);
  full.may_leave = true;
  for (const ReasonCode code :
       {ReasonCode::pool_full, ReasonCode::pool_fragmented, ReasonCode::region_too_small}) {
    full.code = code;
    const std::string text = reason_text(full, /*away=*/true);
    EXPECT_THAT(text, AllOf(HasSubstr("400 MiB of the pool's 448 MiB"),
                            HasSubstr("comes back when others have had their time"),
                            HasSubstr("`laneway unload`")));
    for (const char* end : {"when they end", "others end", "another job ends", "kill"}) {
      EXPECT_THAT(text, Not(HasSubstr(end)));
    }
  }
}

TEST(Reason, EveryCodeHasANameAndASentenceOfItsOwn) {
  std::set<std::string> names;
  std::set<std::string> sentences;
  const int last = static_cast<int>(ReasonCode::no_way_back);
  for (int code = 0; code <= last; ++code) {
    const auto it = static_cast<ReasonCode>(code);
    names.insert(reason_code_name(it));
    const std::string text = reason_text(reason(it));
    sentences.insert(text);
    EXPECT_EQ(text.back(), '.') << text;
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(last) + 1);
  EXPECT_EQ(sentences.size(), static_cast<size_t>(last) + 1);
}

}  // namespace
}  // namespace laneway::lanes
