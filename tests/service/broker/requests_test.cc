// Who may ask what of the service itself: its owner and root alone, whatever it is.
#include "service/broker/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/service/broker/registry_rig.h"

namespace laneway::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uid_t kRoot = 0;
constexpr uint64_t kSession = 1;

class RequestsTest : public testing::Test, protected RegistryRig {
 protected:
  // What the service was made to do for a session of this user, which asks for all of it.
  std::vector<std::string> asked_by(uid_t user) {
    std::vector<std::string> done;
    const auto note = [&](const char* what) {
      done.emplace_back(what);
      return Status();
    };
    Requests requests(
        registry(), replies(),
        {.status = [](bool) { return wire::StatusReply(); },
         .set_policy = [&](const std::string&) { return note("policy"); },
         .set_pool = [&](Bytes) { return note("pool"); },
         .begin_record = [&](SessionId, const std::string&) { return note("record"); },
         .end_record = [&] { return note("its end"); },
         .session_ended = [](SessionId) {},
         .shut_down = [&] { done.emplace_back("end"); }});
    requests.on_session({.id = SessionId(kSession), .uid = user, .pid = 1, .name = "client"});
    uint64_t number = 0;
    for (wire::AnyRequest& message : all()) {
      requests.on_request({SessionId(kSession), ++number, std::move(message), {}});
    }
    settle();
    return done;
  }

  static std::vector<wire::AnyRequest> all() {
    return {wire::SetPolicy{.policy = "srtf"}, wire::SetPool{.bytes = 32'000},
            wire::StartRecord{.file = "/a"}, wire::EndRecord{}, wire::Shutdown{}};
  }
};

TEST_F(RequestsTest, RootMayChangeTheService) {
  EXPECT_THAT(asked_by(kRoot), ElementsAre("policy", "pool", "record", "its end", "end"));
}

TEST_F(RequestsTest, ItsOwnerMayChangeIt) {
  EXPECT_THAT(asked_by(::geteuid()), ElementsAre("policy", "pool", "record", "its end", "end"));
}

TEST_F(RequestsTest, AnotherUserMayNotAndIsToldWhoMay) {
  EXPECT_THAT(asked_by(::geteuid() + 1), IsEmpty());
  for (uint64_t number = 1; number <= all().size(); ++number) {
    const auto said = get<wire::Failure>(kSession, number);
    EXPECT_EQ(said.code, ErrorCode::refused) << number;
    EXPECT_THAT(said.message, HasSubstr("only the service's owner and root may ")) << number;
  }
}

}  // namespace
}  // namespace laneway::service
