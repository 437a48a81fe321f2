// PoolReturn: gives memory of the pool that is not used any more back to the machine, which takes a
// second for some GiB, on a thread of its own. And again after a while: whoever looked at that
// memory just then, as a standby that maps the pages that there are, has brought pages back.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/time.h"
#include "service/worker/common/task_thread.h"
#include "service/worker/jobs/worker_context.h"

namespace laneway::service {

class PoolReturn {
 public:
  // It must outlive the object.
  explicit PoolReturn(WorkerContext& context) : context_(context) {}
  ~PoolReturn() { call_off(); }

  // From `begin` on, a place in the pool, nothing is used from now on; the first `fresh` bytes of
  // that were until now.
  void give_back(Bytes begin, Bytes fresh) LW_EXCLUDES(mutex_);
  // Nothing is given back any more when it returns.
  void stop() LW_EXCLUDES(mutex_);

 private:
  static constexpr std::array kAgainAfter{milliseconds(100), seconds(1), seconds(10), seconds(60)};
  // The range that was given back last is not looked at again. Returns the number of the next one.
  uint64_t call_off() LW_EXCLUDES(mutex_);
  // False, at once or later, when that was called off.
  bool wait(uint64_t number, Duration pause) LW_EXCLUDES(mutex_);

  WorkerContext& context_;
  Mutex mutex_;
  CondVar called_off_;
  uint64_t number_ LW_GUARDED_BY(mutex_) = 0;
  TaskThread thread_;  // last: ends before all else
};

}  // namespace laneway::service
