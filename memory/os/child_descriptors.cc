#include "memory/os/child_descriptors.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/mutex.h"

namespace laneway::memory {
namespace {

struct List {
  Mutex mutex;
  std::vector<int> descriptors LW_GUARDED_BY(mutex);
};

List& list() {
  static auto* list = new List;  // outlives whatever is closed while the process ends
  return *list;
}

// The list is held over the fork, so that the child finds it whole and its mutex free.
void before_fork() LW_NO_THREAD_SAFETY_ANALYSIS { list().mutex.lock(); }
void after_in_parent() LW_NO_THREAD_SAFETY_ANALYSIS { list().mutex.unlock(); }
void after_in_child() LW_NO_THREAD_SAFETY_ANALYSIS {
  for (const int descriptor : list().descriptors) ::close(descriptor);
  list().descriptors.clear();
  list().mutex.unlock();
}

}  // namespace

bool close_in_children(int descriptor) {
  static const bool watching =
      ::pthread_atfork(&before_fork, &after_in_parent, &after_in_child) == 0;
  if (!watching) return false;
  const MutexLock lock(list().mutex);
  list().descriptors.push_back(descriptor);
  return true;
}

void forget_in_children(int descriptor) {
  const MutexLock lock(list().mutex);
  std::erase(list().descriptors, descriptor);
}

}  // namespace laneway::memory
