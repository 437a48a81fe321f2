// The text of a policy becomes that policy, and what is wrong with a text is named together with
// what would have been right.
#include "policies/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policies/scene.h"

namespace laneway::policies {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto policy = make_policy(text);
  if (policy.ok()) return "no error";
  EXPECT_EQ(policy.error().code, ErrorCode::invalid_argument);
  return policy.error().message;
}

TEST(Registry, MakesEveryPolicyThatItLists) {
  EXPECT_THAT(policy_names(),
              testing::IsSupersetOf({"edf", "fair", "fifo", "las", "priority", "sjf", "srtf"}));
  for (const std::string& name : policy_names()) {
    const auto policy = make_policy(name);
    ASSERT_TRUE(policy.ok()) << name;
    EXPECT_EQ(policy.value()->name(), name);
  }
}

TEST(Registry, PassesOptionsOn) {
  Scene scene;
  scene.waiting(1);
  const auto alone = make_policy("srtf:share=no");
  ASSERT_TRUE(alone.ok());
  EXPECT_FALSE(alone.value()->admit(TimePoint(), scene.view).may_share);
  const auto shared = make_policy("fifo:share=yes");
  ASSERT_TRUE(shared.ok());
  EXPECT_TRUE(shared.value()->admit(TimePoint(), scene.view).may_share);
}

TEST(Registry, AFileIsAPolicyOfSomebodyOutside) {
  for (const std::string text : {"./mine.py", "/somewhere/mine", "../mine:key=value:age=off"}) {
    const auto policy = make_policy(text);
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    EXPECT_NE(policy.value()->advised(), nullptr);
    EXPECT_EQ(policy.value()->name(), text.substr(0, text.find(':')));
  }
  EXPECT_EQ(make_policy("fifo").value()->advised(), nullptr);
}

TEST(Registry, OptionsThatAllPoliciesHaveAreNotTheFiles) {
  const auto plugin = plugin_of("./mine.py:quantum_s=2:age=off:share=no:what=a=b:reserve_s=9");
  ASSERT_TRUE(plugin.has_value());
  EXPECT_EQ(plugin->file, "./mine.py");
  EXPECT_EQ(plugin->options, "quantum_s=2:what=a=b");
  EXPECT_EQ(plugin_of("./mine.py")->options, "");
  EXPECT_FALSE(plugin_of("fifo:by=request").has_value());
  EXPECT_FALSE(plugin_of("./mine.py:age=maybe").has_value()) << "make_policy says why";
  EXPECT_THAT(error_of("./mine.py:age=maybe"), HasSubstr("age=on or age=off"));
  EXPECT_THAT(error_of("./mine.py:key"), HasSubstr("key=value"));
  EXPECT_THAT(error_of("mine.py"), HasSubstr("files, such as ./mine.py"));
}

TEST(Registry, NamesWhatIsUnknownAndWhatIsKnown) {
  for (const std::string& name : policy_names()) {
    EXPECT_THAT(error_of("lifo"), testing::AllOf(HasSubstr("'lifo'"), HasSubstr(name)));
    EXPECT_THAT(error_of(""), HasSubstr(name));
  }
  EXPECT_THAT(error_of("fifo:speed=9"), testing::AllOf(HasSubstr("'speed'"), HasSubstr("share")));
  EXPECT_THAT(error_of("fifo:share=maybe"),
              testing::AllOf(HasSubstr("share=maybe"), HasSubstr("share=yes or share=no")));
  EXPECT_THAT(error_of("fair:quantum_s=soon"),
              testing::AllOf(HasSubstr("quantum_s=soon"), HasSubstr("from 1e-06 to 3600")));
  EXPECT_THAT(error_of("fair:quantum_s=nan"), HasSubstr("a number from"));
  EXPECT_THAT(error_of("fair:quantum_s=-1"), HasSubstr("a number from"));
  EXPECT_THAT(error_of("srtf:seed=1.5"), HasSubstr("a whole number from 0"));
  EXPECT_THAT(error_of("srtf:age=yes"), HasSubstr("age=on or age=off"));
  EXPECT_THAT(error_of("fifo:share"), HasSubstr("key=value"));
  EXPECT_THAT(error_of("fifo:"), HasSubstr("key=value"));
  EXPECT_THAT(error_of("fifo:=no"), HasSubstr("key=value"));
  EXPECT_THAT(error_of("fifo:share=no:share=yes"), HasSubstr("twice"));
  EXPECT_THAT(error_of("./mine.py:key=" + std::string(8000, 'v')), HasSubstr("at most 8000"));
}

}  // namespace
}  // namespace laneway::policies
