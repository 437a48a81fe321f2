#include "service/worker/run/plan_cache.h"

#include <utility>

#include "base/clock.h"
#include "memory/planner.h"
#include "service/worker/common/limits.h"

namespace laneway::service {
namespace {

bool same_tape(const memory::AllocationTape& a, const memory::AllocationTape& b) {
  if (a.frees != b.frees || a.allocations.size() != b.allocations.size()) return false;
  for (size_t i = 0; i < a.allocations.size(); ++i) {
    if (a.allocations[i].bytes != b.allocations[i].bytes ||
        a.allocations[i].frees_before != b.allocations[i].frees_before) {
      return false;
    }
  }
  return true;
}

}  // namespace

PlanCache::Entry PlanCache::plan(memory::AllocationTape tape) {
  const uint64_t key = tape.hash();
  {
    MutexLock lock(mutex_);
    if (const auto found = find(tape, key)) return *found;
  }
  const SteadyClock clock;
  const TimePoint start = clock.now();
  Entry entry;
  entry.bound = tape.live_bound(alignment_);
  memory::Plan plan = memory::plan_tape(tape, {.alignment = alignment_});
  entry.plan_s = (clock.now() - start).seconds();
  entry.planned = memory::make_planned_tape(std::move(tape), std::move(plan));
  return add(std::move(entry));
}

std::optional<PlanCache::Entry> PlanCache::find(const memory::AllocationTape& tape,
                                                uint64_t key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end() || !same_tape(found->second.planned->tape, tape)) {
    return std::nullopt;
  }
  return found->second;
}

PlanCache::Entry PlanCache::add(Entry entry) {
  const uint64_t key = entry.planned->tape.hash();
  MutexLock lock(mutex_);
  if (auto found = find(entry.planned->tape, key)) return *std::move(found);
  if (entries_.size() >= limits::kMaxCachedPlans) entries_.erase(entries_.begin());
  entries_[key] = entry;
  return entry;
}

}  // namespace laneway::service
