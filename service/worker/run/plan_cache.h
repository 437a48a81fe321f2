// PlanCache: plans by the hash of their tape, so that jobs with equal tapes (and one that is
// probed again) plan once. Thread-safe; two threads that ask for the same tape at the same time
// may both plan it.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "memory/planned_tape.h"

namespace laneway::service {

class PlanCache {
 public:
  // `alignment`: of the lanes' arenas.
  explicit PlanCache(int64_t alignment) : alignment_(alignment) {}
  int64_t alignment() const { return alignment_; }

  struct Entry {
    std::shared_ptr<const memory::PlannedTape> planned;
    Bytes bound;
    double plan_s = 0;  // what planning took when it was done
  };
  // Plans the tape, or finds the plan.
  Entry plan(memory::AllocationTape tape) LW_EXCLUDES(mutex_);
  // Adds a plan that was made elsewhere. Returns the tape's plan from here on, which is the one
  // that the cache had before, if it had one.
  Entry add(Entry entry) LW_EXCLUDES(mutex_);

 private:
  std::optional<Entry> find(const memory::AllocationTape& tape, uint64_t key) const
      LW_REQUIRES(mutex_);

  const int64_t alignment_;
  Mutex mutex_;
  std::map<uint64_t, Entry> entries_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service
