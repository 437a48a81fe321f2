// SignalQueue: signals as something to poll for instead of an interruption. The ones that end a
// service, SIGHUP, and the one for children that ended are blocked as long as the object lives
// (children get them unblocked, child_process.h); SIGPIPE is ignored. One per process, made before
// there are other threads.
#pragma once

#include <csignal>
#include <vector>

#include "base/result.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

class SignalQueue {
 public:
  static Result<SignalQueue> open();
  SignalQueue(SignalQueue&&) noexcept = default;
  SignalQueue& operator=(SignalQueue&&) = delete;
  ~SignalQueue();

  int descriptor() const { return descriptor_.get(); }
  // The numbers of those that came since the last call. Does not wait.
  std::vector<int> take();

 private:
  SignalQueue() = default;

  Descriptor descriptor_;
  sigset_t before_{};
};

}  // namespace laneway::service
