#include "service/api/close_at_exit.h"

#include <pthread.h>

#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace laneway::service {
namespace {

struct OpenServices {
  Mutex mutex;
  std::vector<std::weak_ptr<OpenService>> all LW_GUARDED_BY(mutex);
};

OpenServices& open_services() {
  static auto* services = new OpenServices;  // lives as long as the process
  return *services;
}

void close_all() {
  std::vector<std::weak_ptr<OpenService>> all;
  {
    MutexLock lock(open_services().mutex);
    all.swap(open_services().all);
  }
  for (const auto& open : all) {
    if (const auto service = open.lock()) service->close_for_exit();
  }
}

// The list is held over a fork, so that the child finds its mutex free; what it names is the
// parent's to close.
void before_fork() LW_NO_THREAD_SAFETY_ANALYSIS { open_services().mutex.lock(); }
void after_in_parent() LW_NO_THREAD_SAFETY_ANALYSIS { open_services().mutex.unlock(); }
void after_in_child() LW_NO_THREAD_SAFETY_ANALYSIS {
  open_services().all.clear();
  open_services().mutex.unlock();
}

bool watch_process() {
  return std::atexit(&close_all) == 0 &&
         ::pthread_atfork(&before_fork, &after_in_parent, &after_in_child) == 0;
}

}  // namespace

void close_at_exit(const std::shared_ptr<OpenService>& service) {
  static const bool watching = watch_process();
  LW_CHECK(watching, "no memory for a handler of exit() or fork()");
  MutexLock lock(open_services().mutex);
  std::erase_if(open_services().all, [](const auto& open) { return open.expired(); });
  open_services().all.push_back(service);
}

}  // namespace laneway::service
