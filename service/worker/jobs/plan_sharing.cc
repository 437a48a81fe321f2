#include "service/worker/jobs/plan_sharing.h"

#include <bit>
#include <utility>
#include <vector>

#include "lanes/state/event.h"

namespace laneway::service {

void share_plan(WorkerContext& context, WorkerJobs& jobs, const WorkerJob& job,
                const WorkerGraph& graph, const IterationResult& result) {
  const GraphOrigin& origin = graph.origin;
  if (origin.known == nullptr) return;
  if (result.end == IterationEnd::out_of_lane && graph.plan.need < result.need) {
    origin.known->forget(origin.user, graph.plan.planned.get());
  }
  if (!result.learnt) return;
  origin.known->learn(
      origin.user,
      {.plan = *result.learnt, .marks = result.use.marks, .longest_node = graph.plan.longest_node});
  std::vector<lanes::NeedChanged> changed;
  {
    const BookkeepingLock lock(context.mutex);
    for (const auto& [id, other] : jobs.all()) {
      // One that runs measures for itself.
      if (other.get() == &job || other->running || other->user != origin.user) continue;
      const Bytes before = other->need();
      for (const auto& [number, equal] : other->graphs) {
        if (equal->origin.known == origin.known) (void)equal->take_known_plan();
      }
      const Bytes now = other->need();
      if (now != before) changed.push_back({.job = id, .ephemeral = now});
    }
  }
  for (const lanes::NeedChanged& need : changed) context.events.post(need);
}

void share_time(WorkerContext& context, WorkerJobs& jobs, const WorkerJob& job,
                WorkerGraph& graph) {
  const GraphOrigin& origin = graph.origin;
  GraphPlan& plan = graph.plan;
  if (origin.known == nullptr || plan.timed == plan.told || !std::has_single_bit(plan.timed)) {
    return;
  }
  origin.known->note_iteration(origin.user, plan.planned_took);
  std::vector<lanes::TimeLearnt> learnt;
  {
    const BookkeepingLock lock(context.mutex);
    plan.told = plan.timed;
    for (const auto& [id, other] : jobs.all()) {
      if (other.get() == &job || other->running || other->user != origin.user) continue;
      if (other->graphs.empty()) continue;
      WorkerGraph& first = *other->graphs.begin()->second;
      if (first.origin.known != origin.known || first.plan.iterations > 0) continue;
      first.plan.planned_took = plan.planned_took;
      learnt.push_back({.job = id, .iteration = plan.planned_took});
    }
  }
  for (const lanes::TimeLearnt& one : learnt) context.events.post(one);
}

void share_restored_plans(WorkerJobs& jobs) {
  for (const auto& [id, job] : jobs.all()) {
    for (const auto& [number, graph] : job->graphs) {
      const GraphPlan& plan = graph->plan;
      if (graph->origin.known == nullptr || plan.planned == nullptr) continue;
      graph->origin.known->learn(
          graph->origin.user,
          {.plan = {.planned = plan.planned, .bound = plan.bound, .plan_s = plan.plan_s},
           .marks = plan.marks,
           .longest_node = plan.longest_node});
    }
  }
  for (const auto& [id, job] : jobs.all()) {
    for (const auto& [number, graph] : job->graphs) (void)graph->take_known_plan();
  }
}

}  // namespace laneway::service
