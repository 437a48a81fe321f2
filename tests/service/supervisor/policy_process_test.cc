// The process of a policy from outside, with real processes and a time of the test's own: what it
// finds when it starts, that nothing of it is left, when it is started again, what is told of it.
#include "service/supervisor/policy_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "service/supervisor/policy_file.h"
#include "tests/service/supervisor/policy_script.h"
#include "tests/support/scratch_folder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;
using testing::kWaits;
using testing::write_script;

void wait_for_end(pid_t pid) {
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
}

std::string line_of(const Descriptor& socket) {
  std::string line;
  for (char one = 0; ::read(socket.get(), &one, 1) == 1 && one != '\n';) line += one;
  return line;
}

class PolicyProcessTest : public ::testing::Test {
 protected:
  void begin(const std::string& lines) {
    write_script(file_, lines);
    process_.set(file_, now_);
    process_.partner_came(now_);
  }
  // The next start, which is due now.
  PolicyProcess::News started() {
    process_.tend(now_);
    auto news = process_.take_news();
    EXPECT_EQ(news.size(), 1u);
    if (news.empty()) return {};
    EXPECT_GT(news.front().pid, 0) << news.front().reason;
    return std::move(news.front());
  }
  // What is told of its end, which comes.
  std::string end() {
    wait_for_end(process_.pid());
    process_.reap(now_);
    EXPECT_EQ(process_.pid(), 0);
    auto news = process_.take_news();
    EXPECT_EQ(news.size(), 1u);
    return news.empty() ? "" : news.front().reason;
  }

  testing::ScratchFolder folder_;
  std::string file_ = folder_.path() + "/policy";
  TimePoint now_{1'000'000'000};
  PolicyProcess process_{PolicyProcess::Times{}};
};

TEST_F(PolicyProcessTest, HasASocketABoundOfMemoryAndLeavesNoCore) {
  begin("ulimit -d >&3\nulimit -c >&3\nread line <&3\necho \"$line back\" >&3\nread line <&3");
  const auto news = started();
  EXPECT_EQ(line_of(news.socket), "2097152");
  EXPECT_EQ(line_of(news.socket), "0");
  ASSERT_EQ(::write(news.socket.get(), "there\n", 6), 6);
  EXPECT_EQ(line_of(news.socket), "there back");
  EXPECT_EQ(news.reason, "");
}

TEST_F(PolicyProcessTest, OfALinkTheFileThatWasCheckedIsStarted) {
  const std::string behind = std::filesystem::canonical(folder_.path()).string() + "/behind";
  write_script(behind, "echo $0 >&3\nread line <&3");
  std::filesystem::create_symlink(behind, file_);
  process_.set(file_, now_);
  process_.partner_came(now_);
  EXPECT_EQ(line_of(started().socket), behind);
}

TEST_F(PolicyProcessTest, WhatItForkedEndsWithIt) {
  begin("sleep 600 <&- 3>&- &\necho $! >&3\nread line <&3\nexit 3");
  const auto news = started();
  const pid_t forked = std::stoi(line_of(news.socket));
  const Descriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, forked, 0)));
  ASSERT_TRUE(watch.valid());
  ASSERT_EQ(::write(news.socket.get(), "go\n", 3), 3);
  EXPECT_EQ(end(), "it ended: exit code 3");
  pollfd entry{watch.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 60'000), 1);
}

TEST_F(PolicyProcessTest, OneThatEndsComesLaterAndLaterAndIsGivenUp) {
  begin("exit 3");
  const uint32_t deaths = limits::kMaxDeaths;
  std::string reason;
  for (uint32_t death = 1; death <= deaths; ++death) {
    started();
    reason = end();
    EXPECT_THAT(reason, HasSubstr("it ended: exit code 3"));
    const TimePoint next = process_.next_wakeup();
    if (death == deaths) {
      EXPECT_EQ(next, TimePoint::never());
      break;
    }
    EXPECT_EQ(next == now_, death == 1);
    EXPECT_GE(next, now_);
    now_ = next;
  }
  EXPECT_THAT(reason, HasSubstr("not started again"));
  // Another partner is told, and does not bring it back; to be set again does.
  process_.partner_came(now_);
  process_.tend(now_);
  const auto news = process_.take_news();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news.front().pid, 0);
  EXPECT_THAT(news.front().reason, HasSubstr("not started again"));
  write_script(file_, kWaits);
  process_.set(file_, now_);
  EXPECT_EQ(started().reason, "");
}

// Its end may be seen before that of the partner which left it alone.
TEST_F(PolicyProcessTest, OneThatEndsAMomentBeforeItsPartnerIsNotAtFault) {
  begin("exit 3");
  for (const Duration later : {milliseconds(10), seconds(2)}) {
    EXPECT_EQ(started().reason, "");
    EXPECT_EQ(end(), "it ended: exit code 3");
    now_ = now_ + later;
    process_.partner_left(now_);
    process_.partner_came(now_);
  }
  EXPECT_EQ(started().reason, "it ended: exit code 3");
}

TEST_F(PolicyProcessTest, EachPartnerGetsOneOfItsOwnWhichIsNoFault) {
  begin(kWaits);
  for (uint32_t partner = 0; partner <= limits::kMaxDeaths; ++partner) {
    const auto news = started();
    EXPECT_EQ(news.reason, "");
    EXPECT_EQ(line_of(news.socket), "here");
    process_.partner_came(now_);
    wait_for_end(news.pid);
    process_.reap(now_);
    EXPECT_TRUE(process_.take_news().empty());
    EXPECT_EQ(process_.next_wakeup(), now_);
  }
}

TEST_F(PolicyProcessTest, ThereIsNoneWithoutPartnerOrFile) {
  write_script(file_, kWaits);
  process_.set(file_, now_);
  process_.tend(now_);
  EXPECT_EQ(process_.pid(), 0);
  process_.partner_came(now_);
  const pid_t pid = started().pid;
  process_.partner_left(now_);
  wait_for_end(pid);
  process_.reap(now_);
  process_.tend(now_);
  EXPECT_EQ(process_.pid(), 0);
  process_.partner_came(now_);
  started();
  process_.set("", now_);
  wait_for_end(process_.pid());
  process_.reap(now_);
  process_.tend(now_);
  EXPECT_EQ(process_.pid(), 0);
  EXPECT_EQ(process_.next_wakeup(), TimePoint::never());
  EXPECT_TRUE(process_.take_news().empty());
}

TEST_F(PolicyProcessTest, ThePartnersWordIsTheReasonAndEndsAStoppedOneToo) {
  begin(kWaits);
  const auto news = started();
  line_of(news.socket);
  ::kill(news.pid, SIGSTOP);
  process_.failed(news.pid + 1, "of another one", false, now_);
  process_.reap(now_);
  EXPECT_EQ(process_.pid(), news.pid) << "it is stopped, and that is no end";
  process_.failed(news.pid, "it did not answer", false, now_);
  EXPECT_EQ(end(), "it did not answer");
  EXPECT_EQ(started().reason, "it did not answer");
}

TEST_F(PolicyProcessTest, OneThatHungUpHasAMomentToEnd) {
  begin("exec 3>&-\nsleep 600");
  const auto news = started();
  process_.failed(news.pid, "hung up", true, now_);
  EXPECT_EQ(process_.next_wakeup(), now_ + limits::kHangUpPatience);
  process_.tend(now_);
  EXPECT_EQ(::kill(news.pid, 0), 0);
  now_ = process_.next_wakeup();
  process_.tend(now_);
  EXPECT_THAT(end(), HasSubstr("closed its descriptor 3"));
  write_script(file_, "exit 9");
  process_.failed(started().pid, "hung up", true, now_);
  EXPECT_THAT(end(), HasSubstr("exit code 9"));
}

TEST_F(PolicyProcessTest, AFileThatChangedRunsAnewUnlessOthersMayWriteIt) {
  begin("echo first >&3\nread line <&3");
  const auto first = started();
  EXPECT_EQ(line_of(first.socket), "first");
  write_script(file_, "echo second >&3\nread line <&3");
  process_.failed(first.pid, "late", false, now_);
  end();
  const auto second = started();
  EXPECT_EQ(line_of(second.socket), "second");
  ASSERT_EQ(::chmod(file_.c_str(), 0775), 0);
  process_.failed(second.pid, "late", false, now_);
  end();
  now_ = process_.next_wakeup();
  process_.tend(now_);
  const auto news = process_.take_news();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news.front().pid, 0);
  EXPECT_THAT(news.front().reason, HasSubstr(file_));
}

TEST_F(PolicyProcessTest, OneWhoseInterpreterIsMissingSaysSo) {
  {
    std::ofstream out(file_);
    out << "#!/nowhere/python\n";
  }
  ASSERT_EQ(::chmod(file_.c_str(), 0755), 0);
  process_.set(file_, now_);
  process_.partner_came(now_);
  started();
  EXPECT_THAT(end(), HasSubstr("interpreter"));
}

TEST(PolicyFile, IsSaidByItsAbsolutePathAndOneThatMayNotRunIsNamed) {
  const testing::ScratchFolder folder;
  const std::string file = folder.path() + "/mine.sh";
  write_script(file, kWaits);
  EXPECT_EQ(startable_policy("srtf:age=off").value(), "srtf:age=off");
  EXPECT_EQ(startable_policy(folder.path() + "/./mine.sh:key=a").value(), file + ":key=a");
  for (const mode_t mode : {0644u, 0775u, 0757u}) {
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    const auto refused = startable_policy(file);
    ASSERT_FALSE(refused.ok()) << mode;
    EXPECT_THAT(refused.error().message, HasSubstr(file));
  }
  ASSERT_EQ(::chmod(file.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  EXPECT_FALSE(startable_policy(file).ok()) << "others could put another file there";
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  EXPECT_FALSE(startable_policy(folder.path() + "/nowhere").ok());
  EXPECT_FALSE(startable_policy(folder.path() + "/.").ok());
}

}  // namespace
}  // namespace laneway::service
