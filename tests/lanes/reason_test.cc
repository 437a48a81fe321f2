// Every reason's sentence carries its arithmetic and a remedy, so that a user can act on it.
#include "lanes/reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace laneway::lanes {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

TEST(Reason, EveryCodeHasANameAndASentenceOfItsOwn) {
  std::set<std::string> names;
  std::set<std::string> sentences;
  const int last = static_cast<int>(ReasonCode::paused);
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
