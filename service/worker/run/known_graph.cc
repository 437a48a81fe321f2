#include "service/worker/run/known_graph.h"

#include <algorithm>
#include <utility>

#include "service/worker/common/limits.h"

namespace laneway::service {

bool KnownGraph::is(std::span<const std::byte> bytes, std::span<const ImageSlot> slots) const {
  return std::equal(bytes.begin(), bytes.end(), bytes_.begin(), bytes_.end()) &&
         std::equal(slots.begin(), slots.end(), slots_.begin(), slots_.end());
}

std::optional<KnownGraph::Learnt> KnownGraph::learnt(uint32_t user) const {
  MutexLock lock(mutex_);
  const auto found = learnt_.find(user);
  return found == learnt_.end() ? std::nullopt : std::optional(found->second);
}

void KnownGraph::learn(uint32_t user, Learnt learnt) {
  MutexLock lock(mutex_);
  const bool is_new = learnt_.count(user) == 0;
  if (is_new && learnt_.size() >= limits::kMaxUsersOfPlans) learnt_.erase(learnt_.begin());
  Learnt& known = learnt_[user];
  if (learnt.iteration == Duration()) learnt.iteration = known.iteration;
  known = std::move(learnt);
}

void KnownGraph::forget(uint32_t user, const memory::PlannedTape* planned) {
  MutexLock lock(mutex_);
  const auto found = learnt_.find(user);
  if (found != learnt_.end() && found->second.plan.planned.get() == planned) learnt_.erase(found);
}

void KnownGraph::note_iteration(uint32_t user, Duration took) {
  MutexLock lock(mutex_);
  const auto found = learnt_.find(user);
  if (found != learnt_.end()) found->second.iteration = took;
}

void KnownGraph::note_longest(uint32_t user, Duration node) {
  MutexLock lock(mutex_);
  const auto found = learnt_.find(user);
  if (found == learnt_.end()) return;
  found->second.longest_node = std::max(found->second.longest_node, node);
}

}  // namespace laneway::service
