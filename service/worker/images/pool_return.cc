#include "service/worker/images/pool_return.h"

#include "base/log.h"

namespace laneway::service {

uint64_t PoolReturn::call_off() {
  uint64_t next = 0;
  {
    const MutexLock lock(mutex_);
    next = ++number_;
  }
  called_off_.notify_all();
  return next;
}

void PoolReturn::give_back(Bytes begin, Bytes fresh) {
  thread_.post([this, number = call_off(), begin, fresh] {
    const auto give = [this, begin] {
      return context_.backend.pool_access().give_back(context_.pool + begin.count(),
                                                      context_.capacity - begin);
    };
    const bool given = give();
    log_info(format_bytes(fresh) + " of the pool are not used any more" +
             (given ? ", and given back to the machine" : "; its memory stays with the service"));
    for (const Duration pause : kAgainAfter) {
      if (!given || !wait(number, pause)) return;
      (void)give();
    }
  });
}

void PoolReturn::stop() {
  call_off();
  thread_.wait_idle();
}

bool PoolReturn::wait(uint64_t number, Duration pause) {
  const TimePoint end = context_.clock.now() + pause;
  const MutexLock lock(mutex_);
  while (number_ == number) {
    const TimePoint now = context_.clock.now();
    if (now >= end) return true;
    called_off_.wait_for(mutex_, end - now);
  }
  return false;
}

}  // namespace laneway::service
