#include "service/api/owner_process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "base/check.h"

namespace laneway::service {
namespace {

std::atomic<uint64_t> generation{0};

uint64_t this_generation() {
  static const bool watching =
      ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1); }) == 0;
  LW_CHECK(watching, "no memory for a handler of fork()");
  return generation.load(std::memory_order_relaxed);
}

}  // namespace

OwnerProcess::OwnerProcess() : generation_(this_generation()), pid_(::getpid()) {}

bool OwnerProcess::is_this() const {
  return generation.load(std::memory_order_relaxed) == generation_;
}

Error OwnerProcess::error_elsewhere() const {
  return Error{ErrorCode::unavailable,
               "the service belongs to process " + std::to_string(pid_) + ", this is process " +
                   std::to_string(::getpid()) +
                   ", which was forked from it and has neither the service's threads nor its "
                   "memory: use it in process " +
                   std::to_string(pid_) + ", or open a service of this process's own"};
}

}  // namespace laneway::service
