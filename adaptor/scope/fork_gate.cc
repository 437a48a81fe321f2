#include "adaptor/scope/fork_gate.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>

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

}  // namespace

TorchUse::TorchUse() {
  [[maybe_unused]] static const bool watching = watch_forks();
  users.fetch_add(1);
  for (uint32_t forking = forks.load(); forking != 0; forking = forks.load()) {
    leave();
    forks.wait(forking);
    users.fetch_add(1);
  }
}

TorchUse::~TorchUse() { leave(); }

bool thread_has_forked() { return has_forked; }

}  // namespace laneway::adaptor
