#include "service/worker/lanes/iteration_answer.h"

namespace laneway::service {

void answer(WorkerContext& context, StateGuard& guard, const RunIteration& run,
            IterationResult& result, const IterationTimes& times) {
  if (result.end == IterationEnd::completed) {
    guard.completed(run.job, run.graph, run.work.inputs(), times.took, times.measured);
  } else {
    guard.left(run.job);
  }
  // The client need not wait for what is learnt from its iteration; who asks for it does.
  ++run.job.answered;
  if (result.end == IterationEnd::completed) {
    run.work.complete({}, times.took);
  } else if (!is_run_again(result.end) && run.work.uses_job()) {
    run.work.complete(result.error, times.took, result.end == IterationEnd::failed_for_good);
  }
  note_iteration(context, {.job = run.job.id,
                           .lane = run.lane,
                           .graph = run.graph.number,
                           .start_ns = times.start.ns(),
                           .took_ns = times.took.ns(),
                           .paused_ns = times.held.ns(),
                           .outcome = outcome_of(result.end)});
}

void answer_retired(WorkerContext& context, StateGuard& guard, const RunIteration& run,
                    const EnqueuedQueue::Retired& retired, const std::optional<Error>& crash) {
  if (retired.status) {
    guard.completed(run.job, run.graph, run.work.inputs(), retired.took, {});
    guard.landing();
    run.work.complete({}, retired.took);
  } else {
    {
      // The job must be over before its client hears of the failure.
      const BookkeepingLock lock(context.mutex);
      if (!run.job.end_reason) run.job.end_reason = *crash;
      run.job.closing = true;
    }
    run.work.complete(*crash, retired.took, /*spoiled=*/true);
  }
  note_iteration(context, {.job = run.job.id,
                           .lane = run.lane,
                           .graph = run.graph.number,
                           .start_ns = retired.start.ns(),
                           .took_ns = retired.took.ns(),
                           .paused_ns = 0,
                           .outcome = retired.status ? wire::IterationOutcome::completed
                                                     : wire::IterationOutcome::failed_for_good});
}

}  // namespace laneway::service
