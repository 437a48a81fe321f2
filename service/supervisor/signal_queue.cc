#include "service/supervisor/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace laneway::service {

Result<SignalQueue> SignalQueue::open() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&signals, number);
  SignalQueue queue;
  ::sigprocmask(SIG_BLOCK, &signals, &queue.before_);
  ::signal(SIGPIPE, SIG_IGN);
  queue.descriptor_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!queue.descriptor_.valid()) {
    return Error{ErrorCode::failed, std::string("signalfd: ") + std::strerror(errno)};
  }
  return queue;
}

SignalQueue::~SignalQueue() {
  if (descriptor_.valid()) ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::vector<int> SignalQueue::take() {
  std::vector<int> numbers;
  signalfd_siginfo one{};
  while (::read(descriptor_.get(), &one, sizeof(one)) == sizeof(one)) {
    numbers.push_back(static_cast<int>(one.ssi_signo));
  }
  return numbers;
}

}  // namespace laneway::service
