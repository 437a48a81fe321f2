// Shows which versions of torch count as one, and that a text from outside is looked at before it
// becomes part of a message.
#include "base/torch_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace laneway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TorchVersion, HasAMinorVersionWhenItIsReleased) {
  for (const char* text : {"2.11.0+cu130", "2.11.0", "2.11.7+cpu", "2.11", "2.11.0.post1"}) {
    EXPECT_EQ(torch_minor(text), "2.11") << text;
  }
  for (const char* text : {"", "2", "2.", ".1", "2.12.0a0+git12", "2.12.0.dev20260101", "2.12.0rc1",
                           "two.one", "2..1", "2.11."}) {
    EXPECT_EQ(torch_minor(text), "") << text;
  }
}

TEST(TorchVersion, PatchReleasesAndBuildsForOtherDevicesCountAsOne) {
  EXPECT_TRUE(same_torch_minor("2.11.0+cu130", "2.11.1"));
  EXPECT_TRUE(same_torch_minor("2.11.0", "2.11.0+cpu"));
  EXPECT_FALSE(same_torch_minor("2.11.0", "2.12.0"));
  EXPECT_FALSE(same_torch_minor("2.1.0", "2.11.0"));
  EXPECT_FALSE(same_torch_minor("1.11.0", "2.11.0"));
  EXPECT_FALSE(same_torch_minor("", "2.11.0")) << "a process without torch";
  EXPECT_TRUE(same_torch_minor("", ""));
}

TEST(TorchVersion, APreReleaseWorksWithItselfAlone) {
  EXPECT_TRUE(same_torch_minor("2.12.0a0+git12", "2.12.0a0+git12"));
  EXPECT_FALSE(same_torch_minor("2.12.0a0+git12", "2.12.0a0+git13"));
  EXPECT_FALSE(same_torch_minor("2.12.0a0+git12", "2.12.0"));
}

TEST(TorchVersion, AProgramThatLoadedAnotherOneIsRefusedWithBoth) {
  EXPECT_TRUE(check_loaded_torch({.built = "2.11.0", .running = "2.11.1"}));
  EXPECT_TRUE(check_loaded_torch({.built = "2.11.0", .running = ""})) << "it does not say";
  EXPECT_TRUE(check_loaded_torch({}));
  const Status other = check_loaded_torch({.built = "2.11.0", .running = "2.12.1"});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::unsupported);
  EXPECT_THAT(other.error().message,
              AllOf(HasSubstr("built for torch 2.11.0"), HasSubstr("loaded torch 2.12.1"),
                    HasSubstr("install torch 2.11,")));
}

TEST(TorchVersion, ATextFromOutsideHasTheLettersOfVersions) {
  for (const char* text : {"", "2.11.0+cu130", "2.12.0a0+git-1_x"}) {
    EXPECT_TRUE(check_torch_version_text(text)) << text;
  }
  EXPECT_TRUE(check_torch_version_text(std::string(kMaxTorchVersionBytes, '1')));
  for (const std::string& text : {std::string("2.11 0"), std::string("2.11\n"), std::string("\xff"),
                                  std::string(kMaxTorchVersionBytes + 1, '1')}) {
    const Status refused = check_torch_version_text(text);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().message, HasSubstr("at most 64 letters"));
  }
}

}  // namespace
}  // namespace laneway
