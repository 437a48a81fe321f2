// Addresses: the forms that are accepted, what is meant when none is given, and what a refusal
// names.
#include "service/transport/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace laneway::service {
namespace {

using testing::HasSubstr;

// Sets or clears a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Address, NamesTheThreeFilesOfAService) {
  const auto address = Address::parse("ipc:///run/laneway/a.sock");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address.value().text(), "ipc:///run/laneway/a.sock");
  EXPECT_EQ(address.value().path(), "/run/laneway/a.sock");
  EXPECT_EQ(address.value().descriptor_path(), "/run/laneway/a.sock.fd");
  EXPECT_EQ(address.value().lock_path(), "/run/laneway/a.sock.lock");
  EXPECT_EQ(address.value().directory(), "/run/laneway");
}

TEST(Address, ARelativePathIsMadeAbsolute) {
  const auto address = Address::parse("ipc://some/./where/../a.sock");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address.value().path(), (std::filesystem::current_path() / "some/a.sock").string());
}

TEST(Address, OtherFormsAreRefusedWithARemedy) {
  for (const char* text : {"", "/run/a.sock", "ipc://", "unix:///run/a.sock", "ipc:///run/"}) {
    const auto address = Address::parse(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(address.error().message, HasSubstr("ipc://")) << text;
  }
  const auto remote = Address::parse("tcp://somewhere:1234");
  ASSERT_FALSE(remote.ok());
  EXPECT_EQ(remote.error().code, ErrorCode::unsupported);
  EXPECT_THAT(remote.error().message, HasSubstr("use ipc://PATH"));
}

TEST(Address, APathTooLongForASocketIsRefusedWithTheLimit) {
  // 107 bytes and a final zero fit a socket's address; the suffix ".fd" takes three of them.
  EXPECT_TRUE(Address::parse("ipc:///" + std::string(103, 'a')).ok());
  const auto address = Address::parse("ipc:///" + std::string(104, 'a'));
  ASSERT_FALSE(address.ok());
  EXPECT_THAT(address.error().message, HasSubstr("105 bytes; a socket's may have 104"));
}

TEST(Address, TheStandardOneFollowsTheEnvironment) {
  const Variable runtime("XDG_RUNTIME_DIR", "/run/user/7");
  {
    const Variable given("LANEWAY_ADDRESS", "ipc:///somewhere/b.sock");
    EXPECT_EQ(Address::standard().value().text(), "ipc:///somewhere/b.sock");
    EXPECT_EQ(Address::parse_or_standard("").value().text(), "ipc:///somewhere/b.sock");
    EXPECT_EQ(Address::parse_or_standard("ipc:///c/d").value().text(), "ipc:///c/d");
  }
  const Variable none("LANEWAY_ADDRESS", nullptr);
  EXPECT_EQ(Address::standard().value().text(), "ipc:///run/user/7/laneway/laneway.sock");
  const Variable no_runtime("XDG_RUNTIME_DIR", nullptr);
  EXPECT_EQ(Address::standard().value().text(),
            "ipc:///tmp/laneway-" + std::to_string(::getuid()) + "/laneway.sock");
}

}  // namespace
}  // namespace laneway::service
