// The pool of a device that lanewayd knows nothing of: a worker makes it and leaves, those that
// serve get it from lanewayd, whoever of them dies; and what the device refuses reaches the user in
// words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/service/supervisor/stage.h"

namespace laneway::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kAsked = "16777216";  // what the stage asks for

// A maker that said `line` and left.
void make_pool(Stage& stage, const std::string& line) {
  Actor maker = stage.worker();
  maker.expect(std::string("make pool cuda:1 ").append(kAsked).append(" 8"));
  maker.say(line);
  maker.expect("stop");
  maker.leave(0);
}

TEST(DevicePool, IsMadeOnceAndOutlivesEveryWorker) {
  Stage stage;
  stage.start({"--device", "cuda:1", "--lane-sms", "8"});
  make_pool(stage, "pool 8388608 shared");
  Actor broker = stage.serving_broker();
  Actor active = stage.worker();
  active.expect("start cuda:1 cuda 8388608 512 8");
  active.say("ready");
  Actor standby = stage.ready_worker();
  EXPECT_THAT(stage.printed_line(), HasSubstr("pool 8 MiB"));
  active.expect("activate 1");
  active.say("read");
  EXPECT_EQ(active.expect("memory")[7], 'p') << "what the maker wrote";
  active.say("write xy");
  active.process().kill(SIGKILL);
  standby.expect("activate 2");
  standby.say("read");
  EXPECT_EQ(standby.expect("memory"), "memory xy");
  stage.daemon().kill(SIGTERM);
  broker.expect("stop");
}

TEST(DevicePool, IsMadeByEachActiveWorkerWhereItCannotBeShared) {
  Stage stage;
  stage.start({"--device", "cuda:1", "--lane-sms", "8"});
  make_pool(stage, "pool 8388608 own");
  Actor broker = stage.serving_broker();
  Actor active = stage.worker();
  EXPECT_EQ(active.next(), "start cuda:1 cuda 8388608 512 8") << "with the journal alone";
}

TEST(DevicePool, ThatTheDeviceRefusesIsABadOption) {
  Stage stage;
  stage.start({"--device", "cuda:1", "--lane-sms", "8"});
  make_pool(stage, "refuse " + std::to_string(static_cast<int>(ErrorCode::unsupported)) +
                       " no-such-device");
  EXPECT_EQ(stage.exit_code(), 2);
  EXPECT_THAT(stage.log(), HasSubstr("lanewayd: --device cuda:1: no-such-device"));
  EXPECT_TRUE(stage.files().empty() || stage.files().back() == "laneway.sock.lock");
}

TEST(DevicePool, WhoseMakerDiesIsAFailure) {
  Stage stage;
  stage.start({"--device", "cuda:1", "--lane-sms", "8"});
  Actor maker = stage.worker();
  maker.expect("make pool");
  maker.leave(9);
  EXPECT_EQ(stage.exit_code(), 1);
  EXPECT_THAT(stage.log(), HasSubstr("exit code 9"));
}

}  // namespace
}  // namespace laneway::testing
