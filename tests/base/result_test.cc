// Shows that a Result is one of its two sides, that reading the wrong one stops the process with
// the error's sentence, and that every code has a name of its own.
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace laneway {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  Result<std::unique_ptr<int>> good = std::make_unique<int>(7);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*std::move(good).value(), 7);
  const Result<int> bad = Error{ErrorCode::refused, "no room"};
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::refused);
  EXPECT_EQ(bad.error().message, "no room");
}

TEST(Status, IsFineByDefault) {
  EXPECT_TRUE(Status().ok());
  const Status failed = Error{ErrorCode::failed, "gone"};
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "gone");
}

TEST(ResultDeath, TheWrongSideStopsTheProcessWithItsSentence) {
  const Result<int> bad = Error{ErrorCode::refused, "the pool has no room"};
  EXPECT_DEATH((void)bad.value(), "the pool has no room");
  const Result<int> good = 1;
  EXPECT_DEATH((void)good.error(), "holds a value");
  EXPECT_DEATH((void)Status().error(), "is ok");
}

TEST(ErrorCode, NamesAreDistinct) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::busy); ++code) {
    names.insert(error_code_name(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(ErrorCode::busy) + 1);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(CheckDeath, NamesConditionPlaceAndMessage) {
  const int lanes = 3;
  EXPECT_DEATH(LW_CHECK(lanes == 2, "found " + std::to_string(lanes)),
               "check failed: lanes == 2 at .*result_test.cc:[0-9]+: found 3");
  LW_CHECK(lanes == 3);
}

}  // namespace
}  // namespace laneway
