#include "service/worker/run/kept_plans.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/printable.h"

namespace laneway::service {
namespace {

PieceKey key_of(JobId job, const WorkerGraph& graph) {
  return {.kind = PieceKind::plan, .owner = job.value(), .number = graph.number};
}

PlanSubject subject_of(const WorkerGraph& graph, int64_t alignment) {
  return {.graph_key = graph.torch->memory().tape.hash(),
          .nodes = graph.torch->graph().nodes.size(),
          .alignment = alignment};
}

}  // namespace

void KeptPlans::keep(JobId job, WorkerGraph& graph, const IterationResult& result) {
  if (memory_ == nullptr) return;
  // What did not fit its plan's region is off the plan: a successor must not begin with it.
  if (result.end == IterationEnd::out_of_lane) memory_->release(key_of(job, graph));
  if (!result.learnt) {
    if (graph.plan.is_shared && !std::exchange(graph.shared_plan_kept, true)) {
      const GraphPlan& plan = graph.plan;
      write(job, graph, {.planned = plan.planned, .marks = plan.marks, .plan_s = plan.plan_s});
    }
    return;
  }
  const PlanCache::Entry& learnt = *result.learnt;
  write(job, graph,
        {.planned = learnt.planned, .marks = result.use.marks, .plan_s = learnt.plan_s});
}

void KeptPlans::write(JobId job, WorkerGraph& graph, const PlanRecord& record) {
  const PieceKey key = key_of(job, graph);
  const std::vector<std::byte> bytes =
      encode_plan(subject_of(graph, record.planned->plan.alignment), record);
  // Written before the successor can find it.
  const auto room = memory_->make(key, Bytes(static_cast<int64_t>(bytes.size())));
  if (room) {
    std::memcpy(room.value().data(), bytes.data(), bytes.size());
    memory_->publish(key);
  } else {
    memory_->release(key);  // what was known before is not true any more
    if (!no_room_.exchange(true)) {
      log_warning(
          "plans of graphs are not kept for a worker that follows this one, which will "
          "measure them again: " +
          room.error().message);
    }
  }
  if (graph.dropped) memory_->release(key);
}

void KeptPlans::drop(JobId job, WorkerGraph& graph) {
  graph.dropped = true;
  if (memory_ != nullptr) memory_->release(key_of(job, graph));
}

void KeptPlans::drop_all(JobId job) {
  if (memory_ != nullptr) memory_->release_all(PieceKind::plan, job.value());
}

bool KeptPlans::restore(JobId job, WorkerGraph& graph) const {
  if (memory_ == nullptr) return false;
  const auto piece = memory_->find(key_of(job, graph));
  if (piece.empty()) return false;
  const int64_t alignment = cache_.alignment();
  auto record = decode_plan(subject_of(graph, alignment), piece);
  if (!record) {
    log_warning("the plan that was kept for graph '" + printable(graph.info.name) + "' of job " +
                std::to_string(job.value()) + " is none of it: it is measured again");
    return false;
  }
  PlanCache::Entry entry{
      .planned = std::move(record->planned), .bound = Bytes(), .plan_s = record->plan_s};
  entry.bound = entry.planned->tape.live_bound(alignment);
  entry = cache_.add(std::move(entry));
  take_plan(entry, record->marks, alignment, graph.plan);
  return true;
}

void KeptPlans::retain(const std::set<JobId>& jobs) {
  if (memory_ == nullptr) return;
  for (const PieceKey& key : memory_->keys()) {
    if (key.kind == PieceKind::plan && jobs.count(JobId(key.owner)) == 0) memory_->release(key);
  }
}

}  // namespace laneway::service
