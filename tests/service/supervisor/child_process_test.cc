// Children: what they find when they start (a channel, an empty input, nothing else open, the
// environment that was given), and that nothing of them is left when their owner goes.
#include "service/supervisor/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "service/supervisor/child_environment.h"
#include "service/transport/channel.h"

namespace laneway::service {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr Duration kPatience = seconds(60);

class Child {
 public:
  explicit Child(const std::vector<std::string>& environment = {}) {
    auto ends = Channel::pair();
    channel = std::move(ends.value().first);
    auto spawned = ChildProcess::spawn(LANEWAY_ECHO_CHILD, environment,
                                       std::move(ends.value().second).release());
    EXPECT_TRUE(spawned.ok()) << (spawned.ok() ? "" : spawned.error().message);
    process.emplace(std::move(spawned).value());
  }

  std::string ask(const std::string& what) {
    EXPECT_TRUE(channel.send(std::as_bytes(std::span(what))).ok());
    auto answer = channel.receive_wait(kPatience);
    if (!answer) return "";
    return {reinterpret_cast<const char*>(answer.value().bytes.data()),
            answer.value().bytes.size()};
  }
  // Waits for its end.
  ProcessEnd end() {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(process->pid()), &info, WEXITED | WNOWAIT);
    const auto ended = process->reap();
    EXPECT_TRUE(ended.has_value());
    return ended.value_or(ProcessEnd{});
  }

  Channel channel;
  std::optional<ChildProcess> process;
};

TEST(ChildProcess, FindsItsChannelAndNothingElseOpen) {
  const int mine = ::dup(0);  // not closed on exec
  Child child;
  EXPECT_EQ(child.ask("open"), "0 1 2 3");
  EXPECT_EQ(child.ask("input"), "/dev/null");
  ::close(mine);
}

TEST(ChildProcess, HasTheGivenEnvironmentAndDefaultSignalsInAGroupOfItsOwn) {
  sigset_t block;
  sigset_t before;
  ::sigemptyset(&block);
  ::sigaddset(&block, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &block, &before);
  Child child({"ONE=1", "TWO=zwei"});
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(child.ask("variable TWO"), "zwei");
  EXPECT_EQ(child.ask("variable PATH"), "");
  EXPECT_EQ(child.ask("blocked"), "no");
  EXPECT_EQ(child.ask("leads its group"), "yes");
}

TEST(ChildProcess, HowItEndedIsTold) {
  Child by_itself;
  by_itself.channel = Channel();
  EXPECT_EQ(by_itself.end().text(), "exit code 0");
  Child killed;
  EXPECT_FALSE(killed.process->reap().has_value());
  killed.process->kill();
  EXPECT_THAT(killed.end().text(), HasSubstr("signal 9"));
  EXPECT_FALSE(killed.process->reap().has_value());
}

TEST(ChildProcess, IsGoneWhenItsOwnerIs) {
  pid_t pid = 0;
  {
    Child child;
    child.ask("open");
    pid = child.process->pid();
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(ChildProcess, DiesWithAParentThatIsKilled) {
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    Child child;
    child.ask("open");
    const pid_t pid = child.process->pid();
    if (::write(pids[1], &pid, sizeof(pid)) != sizeof(pid)) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(::read(pids[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  const Descriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  ASSERT_TRUE(watch.valid());
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd entry{watch.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 60'000), 1);
  ::close(pids[0]);
  ::close(pids[1]);
}

TEST(ChildProcess, AProgramThatIsNotThereIsNamed) {
  auto ends = Channel::pair();
  const auto spawned =
      ChildProcess::spawn("/nowhere/laneway-broker", {}, std::move(ends.value().second).release());
  ASSERT_FALSE(spawned.ok());
  EXPECT_THAT(spawned.error().message, HasSubstr("/nowhere/laneway-broker"));
}

TEST(ChildEnvironment, FaultsReachTheFirstProcessAndOthersOnlyWhenTold) {
  ::setenv("LANEWAY_FAULT", "broker.a:1", 1);
  ::unsetenv("LANEWAY_FAULT_AGAIN");
  EXPECT_THAT(child_environment(0), Contains("LANEWAY_FAULT=broker.a:1"));
  EXPECT_THAT(child_environment(1), Not(Contains(StartsWith("LANEWAY_FAULT"))));
  ::setenv("LANEWAY_FAULT_AGAIN", "broker.b:2", 1);
  EXPECT_THAT(child_environment(0), Not(Contains(StartsWith("LANEWAY_FAULT=broker.b"))));
  EXPECT_THAT(child_environment(1), Contains("LANEWAY_FAULT=broker.b:2"));
  EXPECT_THAT(child_environment(1), Contains(StartsWith("PATH=")));
  EXPECT_THAT(child_environment(9), Contains("LANEWAY_FAULT=broker.b:2"));
  ::setenv("LANEWAY_FAULT_AGAIN", "broker.c;;broker.d,broker.e:3", 1);
  EXPECT_THAT(child_environment(0), Contains("LANEWAY_FAULT=broker.a:1"));
  EXPECT_THAT(child_environment(1), Contains("LANEWAY_FAULT=broker.c"));
  EXPECT_THAT(child_environment(2), Not(Contains(StartsWith("LANEWAY_FAULT"))));
  EXPECT_THAT(child_environment(3), Contains("LANEWAY_FAULT=broker.d,broker.e:3"));
  EXPECT_THAT(child_environment(7), Contains("LANEWAY_FAULT=broker.d,broker.e:3"));
  ::unsetenv("LANEWAY_FAULT");
  ::unsetenv("LANEWAY_FAULT_AGAIN");
}

}  // namespace
}  // namespace laneway::service
