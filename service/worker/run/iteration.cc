#include "service/worker/run/iteration.h"

#include <algorithm>
#include <utility>

#include "adaptor/scope/lane_scope.h"
#include "lanes/run/executor.h"
#include "service/worker/run/marking_runner.h"

namespace laneway::service {
namespace {

// At the entry of the commit phase: nothing persistent is written unless the rest of the iteration
// fits the lane, and unless `commit` (null for none) has noted the entry.
class LaneHooks final : public lanes::ExecutorHooks {
 public:
  LaneHooks(const memory::LaneArena& arena, const lanes::GraphMemory& memory, CommitEntry* commit,
            adaptor::LaneScope& scope, Interruption& interruption)
      : arena_(arena),
        memory_(memory),
        commit_(commit),
        scope_(scope),
        interruption_(interruption) {}

  // Its image must be whole before anything is written.
  void wait_for(ArrivingRunner& arriving) { arriving_ = &arriving; }

  // Whoever waits for the thread to be out of torch, as fork() does, goes on meanwhile.
  void pause(size_t) override {
    scope_.suspend();
    interruption_.pause();
    scope_.resume();
  }

  lanes::CommitDecision enter_commit_phase(size_t node) override {
    if (reach_at(node) > arena_.capacity()) return lanes::CommitDecision::grow;
    if (arriving_ != nullptr && !arriving_->may_write()) return lanes::CommitDecision::cancel;
    // What was asked while it waited for its image: from here on it is too late.
    const uint32_t asked = interruption_.word.bits();
    if ((asked & lanes::control::kCancel) != 0) return lanes::CommitDecision::cancel;
    if ((asked & lanes::control::kAbandon) != 0) return lanes::CommitDecision::abandon;
    if (commit_ != nullptr && !commit_->enter()) return lanes::CommitDecision::cancel;
    return lanes::CommitDecision::go;
  }

 private:
  // The highest byte of the lane that the rest of the iteration can still reach. A plan that lies
  // within the lane covers the rest. Without one, what capture predicts for the rest (and an eighth
  // for what operators allocate inside) must fit in the longest free piece.
  Bytes reach_at(size_t node) const {
    const memory::LaneArena::Headroom headroom = arena_.headroom();
    const Bytes height = arena_.capacity() - headroom.largest;
    if (headroom.plan_covers_rest) return height;
    const Bytes live = arena_.capacity() - headroom.free;
    const Bytes growth = std::max(Bytes(), memory_.reach[node] - live);
    return height + growth + Bytes(growth.count() / 8);
  }

  const memory::LaneArena& arena_;
  const lanes::GraphMemory& memory_;
  CommitEntry* const commit_;
  adaptor::LaneScope& scope_;
  Interruption& interruption_;
  ArrivingRunner* arriving_ = nullptr;
};

Bytes grown(Bytes capacity, int64_t alignment) {
  return (capacity + std::max(Bytes(capacity.count() / 2), mib(1))).aligned_up(alignment);
}

// Whether the next iteration tells where its tape stands before each node: a probe does, and one
// whose plan was made without, or whose predecessor left its tape, as it may do so itself.
bool needs_marks(const GraphPlan& plan) {
  return plan.planned == nullptr || plan.marks.empty() || plan.left_tape;
}

IterationEnd end_of(lanes::IterationOutcome outcome) {
  switch (outcome) {
    case lanes::IterationOutcome::completed: return IterationEnd::completed;
    case lanes::IterationOutcome::abandoned_out_of_lane: return IterationEnd::out_of_lane;
    case lanes::IterationOutcome::failed_in_commit: return IterationEnd::failed_for_good;
    case lanes::IterationOutcome::abandoned_by_request: return IterationEnd::abandoned;
    case lanes::IterationOutcome::cancelled: return IterationEnd::cancelled;
    case lanes::IterationOutcome::failed_clean: break;
  }
  return IterationEnd::failed_clean;
}

}  // namespace

IterationResult run_iteration(WorkerGraph& graph, adaptor::DeviceLane& lane,
                              memory::LaneArena& arena, std::span<const lanes::InputView> inputs,
                              std::span<const lanes::OutputView> outputs, CommitEntry* commit,
                              ArrivingImage* arriving, Interruption* interruption) {
  const GraphPlan& plan = graph.plan;
  const lanes::Graph& captured = graph.torch->graph();
  IterationResult result;
  result.was_planned = plan.planned != nullptr;
  lanes::IterationReport report;
  Status drained;
  {
    adaptor::LaneScope scope(lane, arena, captured.context);
    lanes::ControlWord never_set;
    Interruption none{.word = never_set, .pause = {}};
    Interruption& asked = interruption != nullptr ? *interruption : none;
    LaneHooks hooks(arena, graph.torch->memory(), commit, scope, asked);
    if (result.was_planned) {
      arena.begin_planned(plan.planned);
    } else {
      arena.begin_probe();
    }
    lanes::GraphRunner& own = graph.torch->runner();
    MarkingRunner marking(own, arena);
    lanes::GraphRunner& marked = needs_marks(plan) ? marking : own;
    lanes::GraphRunner& guarded = commit != nullptr ? commit->around(marked) : marked;
    std::optional<ArrivingRunner> waiting;
    if (arriving != nullptr) hooks.wait_for(waiting.emplace(guarded, lane, *arriving));
    lanes::GraphRunner& runner = waiting ? *waiting : guarded;
    report = lanes::Executor(runner, asked.word, hooks).run(inputs, outputs);
    result.address_hash = scope.address_hash();
    if (report.outcome == lanes::IterationOutcome::completed) {
      result.enqueued = lane.enqueue();
      result.use = arena.end();
    } else {
      // Nothing of it may still be at work in a region that somebody else gets.
      drained = lane.drain();
      result.use = arena.abandon();
    }
  }
  if (const auto& now = graph.torch->recordings(); now != plan.recordings) result.recordings = now;
  result.end = end_of(report.outcome);
  result.error = std::move(report.error);
  if (!drained) {
    result.end = IterationEnd::failed_for_good;
    result.error = drained.error();
    return result;
  }
  if (result.end == IterationEnd::failed_clean) {
    if (result.error.code != ErrorCode::other_layout) {
      result.error.code = ErrorCode::invalid_argument;
    }
    result.error.message += "; the iteration was taken back, the job's state is as before it";
  }
  result.only_in_commit = report.outcome == lanes::IterationOutcome::failed_in_commit;
  result.no_room_in_commit = report.out_of_lane;
  if (result.end == IterationEnd::out_of_lane || result.no_room_in_commit)
    result.need = grown(arena.capacity(), arena.alignment());
  if (result.use.live_count > result.use.older_count) {
    retire(result);
    result.end = IterationEnd::failed_for_good;
    result.only_in_commit = false;
    result.error = {
        ErrorCode::internal,
        "graph '" + captured.name + "' left " + format_bytes(result.use.live_bytes) +
            " of its lane in use behind its end: an operator keeps memory between "
            "iterations, which a lane cannot give it; the job ends; report the operator"};
  }
  return result;
}

wire::IterationOutcome outcome_of(IterationEnd end) {
  switch (end) {
    case IterationEnd::completed: return wire::IterationOutcome::completed;
    case IterationEnd::out_of_lane: return wire::IterationOutcome::did_not_fit;
    case IterationEnd::failed_clean: return wire::IterationOutcome::failed;
    case IterationEnd::failed_for_good: return wire::IterationOutcome::failed_for_good;
    case IterationEnd::abandoned: return wire::IterationOutcome::abandoned;
    case IterationEnd::cancelled: return wire::IterationOutcome::cancelled;
  }
  return wire::IterationOutcome::failed_for_good;
}

void retire(IterationResult& result) {
  if (result.enqueued == nullptr) return;
  const std::unique_ptr<lanes::EnqueuedIteration> enqueued = std::move(result.enqueued);
  if (Status retired = enqueued->retire(); !retired) {
    result.end = IterationEnd::failed_for_good;
    result.error = retired.error();
  }
}

void learn(IterationResult& result, PlanCache& cache) {
  if (result.end != IterationEnd::completed || !result.use.tape) return;
  result.learnt = cache.plan(std::move(*result.use.tape));
}

void apply(const IterationResult& result, int64_t alignment, GraphPlan& plan) {
  if (result.recordings) plan.recordings = *result.recordings;
  if (result.end == IterationEnd::out_of_lane) {
    // Its lane was smaller than what is known already (a graph that joined lately): nothing new.
    if (plan.need >= result.need) return;
    // What did not fit its plan's region is off the plan: probe again, in a larger one.
    plan.planned = nullptr;
    plan.need = result.need;
    return;
  }
  if (result.end != IterationEnd::completed) return;
  ++plan.iterations;
  if (!result.was_planned) ++plan.probes;
  if (result.use.went_off_tape) ++plan.off_tape;
  plan.left_tape = result.use.went_off_tape;
  if (result.use.skipped) ++plan.replayed;
  if (result.learnt) {
    take_plan(*result.learnt, result.use.marks, alignment, plan);
  } else if (result.was_planned && !result.use.skipped && !result.use.went_back) {
    // What is replayed has the addresses that it was recorded with; what ran twice has all of its
    // addresses twice.
    if (plan.address_hash != 0 && plan.address_hash != result.address_hash) ++plan.address_changes;
    plan.address_hash = result.address_hash;
    if (!result.use.marks.empty()) plan.marks = result.use.marks;
  }
}

void take_plan(const PlanCache::Entry& entry, std::vector<memory::TapePosition> marks,
               int64_t alignment, GraphPlan& plan) {
  plan.planned = entry.planned;
  plan.marks = std::move(marks);
  plan.bound = entry.bound;
  plan.plan_s = entry.plan_s;
  plan.need = std::max(plan.planned->plan.peak, Bytes(alignment));
  plan.address_hash = 0;
  plan.is_shared = false;
}

}  // namespace laneway::service
