#include "adaptor/scope/fork_gate.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "adaptor/scope/lane_blocks.h"
#include "base/check.h"

namespace laneway::adaptor {
namespace {

// Words instead of a lock: a lock that is held over fork() knows its owner by a thread id that the
// child does not have. Threads inside, and threads that are forking.
std::atomic<uint32_t> users{0};
std::atomic<uint32_t> forks{0};
thread_local bool has_forked = false;

void leave() {
  if (users.fetch_sub(1) == 1 && forks.load() != 0) users.notify_all();
}

void before_fork() {
  forks.fetch_add(1);
  for (uint32_t inside = users.load(); inside != 0; inside = users.load()) users.wait(inside);
  LaneBlocks::instance().hold();
}

void after_in_parent() {
  LaneBlocks::instance().release_in_parent();
  if (forks.fetch_sub(1) == 1) forks.notify_all();
}

// Who forked at the same time, or waits to begin, is not in the child.
void after_in_child() {
  LaneBlocks::instance().release_in_child();
  users.store(0);
  forks.store(0);
  has_forked = true;
}

bool watch_forks() {
  LW_CHECK(::pthread_atfork(&before_fork, &after_in_parent, &after_in_child) == 0,
           "no memory for a handler of fork()");
  return true;
}

void watch_forks_once() { [[maybe_unused]] static const bool watching = watch_forks(); }

// Whether the process came from a fork() and not from an exec(): flags in proc_pid_stat(5).
bool process_was_forked() {
  constexpr uint64_t kForkNoExec = 0x40;  // the kernel's PF_FORKNOEXEC
  constexpr int kFieldsBeforeFlags = 6;   // behind the name, which may hold spaces
  std::ifstream stat("/proc/self/stat");
  stat.ignore(std::numeric_limits<std::streamsize>::max(), ')');
  std::string skipped;
  for (int field = 0; field < kFieldsBeforeFlags; ++field) stat >> skipped;
  uint64_t flags = 0;
  stat >> flags;
  return (flags & kForkNoExec) != 0;
}

}  // namespace

TorchUse::TorchUse() {
  watch_forks_once();
  users.fetch_add(1);
  for (uint32_t forking = forks.load(); forking != 0; forking = forks.load()) {
    leave();
    forks.wait(forking);
    users.fetch_add(1);
  }
}

TorchUse::~TorchUse() { leave(); }

bool thread_has_forked() {
  watch_forks_once();  // first: a fork() after the look below is told by its handler
  static const bool came_by_fork = process_was_forked();
  return has_forked || (came_by_fork && ::gettid() == ::getpid());
}

}  // namespace laneway::adaptor
