// Fields of the core's actions, events and reports, in the order in which they travel. Here and not
// in lanes/, which knows of no archive. Included by the codec alone.
#pragma once

#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "lanes/state/report.h"

namespace laneway::lanes {

template <class A>
void serialize(A& archive, Holders& holders) {
  archive(holders.first, holders.second, holders.third, holders.others);
}
template <class A>
void serialize(A& archive, Reason& reason) {
  archive(reason.code, reason.persistent, reason.region, reason.capacity, reason.claimed,
          reason.largest_free, reason.outside, reason.outside_free, reason.staying, reason.position,
          reason.lane, reason.behind, reason.holders, reason.may_leave);
}
template <class A>
void serialize(A& archive, TurnEnvelope& envelope) {
  archive(envelope.region, envelope.base, envelope.ceiling, envelope.budget, envelope.lingers,
          envelope.interrupts, envelope.yields_to);
}
template <class A>
void serialize(A& archive, Turn& turn) {
  archive(turn.id, turn.lane, turn.job, turn.envelope);
}

template <class A>
void serialize(A& archive, AdmitJob& action) {
  archive(action.job, action.lane);
}
template <class A>
void serialize(A& archive, ChangeLane& action) {
  archive(action.job, action.lane);
}
template <class A>
void serialize(A& archive, QueueJob& action) {
  archive(action.job, action.reason);
}
template <class A>
void serialize(A& archive, RefuseJob& action) {
  archive(action.job, action.reason);
}
template <class A>
void serialize(A& archive, RefuseWork& action) {
  archive(action.job, action.reason);
}
template <class A>
void serialize(A& archive, ImagePrefix& prefix) {
  archive(prefix.offset, prefix.size);
}
template <class A>
void serialize(A& archive, PlaceImage& action) {
  archive(action.job, action.offset, action.size, action.prefix);
}
template <class A>
void serialize(A& archive, DropImage& action) {
  archive(action.job);
}
template <class A>
void serialize(A& archive, OutsidePlace& place) {
  archive(place.tier, place.offset);
}
template <class A>
void serialize(A& archive, MoveImage& action) {
  archive(action.job, action.offset, action.size);
}
template <class A>
void serialize(A& archive, EvictImage& action) {
  archive(action.job, action.to, action.size, action.keep);
}
template <class A>
void serialize(A& archive, SaveImage& action) {
  archive(action.job, action.to, action.size);
}
template <class A>
void serialize(A& archive, DropCopy& action) {
  archive(action.job);
}
template <class A>
void serialize(A& archive, DropPrefix& action) {
  archive(action.job);
}
template <class A>
void serialize(A& archive, OpenRegion& action) {
  archive(action.region, action.lane, action.offset, action.size);
}
template <class A>
void serialize(A& archive, ResizeRegion& action) {
  archive(action.region, action.offset, action.size);
}
template <class A>
void serialize(A& archive, CloseRegion& action) {
  archive(action.region);
}
template <class A>
void serialize(A& archive, ResizePool& action) {
  archive(action.capacity);
}
template <class A>
void serialize(A& archive, GrantTurn& action) {
  archive(action.turn);
}
template <class A>
void serialize(A& archive, Learnt& learnt) {
  archive(learnt.policy, learnt.lane, learnt.note, learnt.alone);
}
template <class A>
void serialize(A& archive, LearntBeside& beside) {
  archive(beside.other, beside.time);
}
template <class A>
void serialize(A& archive, KeepLearnt& action) {
  archive(action.job, action.learnt, action.beside);
}
template <class A>
void serialize(A& archive, RecallTurn& action) {
  archive(action.turn, action.lane, action.latest);
}

template <class A>
void serialize(A& archive, JobOffered& event) {
  archive(event.job, event.session, event.options, event.offered_at, event.iteration_estimate,
          event.persistent, event.ephemeral, event.context_key);
}
template <class A>
void serialize(A& archive, JobEnded& event) {
  archive(event.job, event.cancelled);
}
template <class A>
void serialize(A& archive, WorkReady& event) {
  archive(event.job);
}
template <class A>
void serialize(A& archive, IterationSum& sum) {
  archive(sum.count, sum.busy);
}
template <class A>
void serialize(A& archive, TurnEnded& event) {
  archive(event.turn, event.end, event.iterations, event.busy, event.more_ready, event.ephemeral,
          event.idle, event.uncounted, event.probes, event.abandoned, event.must);
}
template <class A>
void serialize(A& archive, TurnPaused& event) {
  archive(event.turn);
}
template <class A>
void serialize(A& archive, TurnResumed& event) {
  archive(event.turn, event.paused);
}
template <class A>
void serialize(A& archive, NeedChanged& event) {
  archive(event.job, event.ephemeral);
}
template <class A>
void serialize(A& archive, TimeLearnt& event) {
  archive(event.job, event.iteration);
}
template <class A>
void serialize(A& archive, ImagePlaced& event) {
  archive(event.job, event.whole);
}
template <class A>
void serialize(A& archive, ImageLeft& event) {
  archive(event.job);
}
template <class A>
void serialize(A& archive, CopyFailed& event) {
  archive(event.job);
}
template <class A>
void serialize(A& archive, ImageSaved& event) {
  archive(event.job, event.whole);
}
template <class A>
void serialize(A& archive, ImageDirty& event) {
  archive(event.job);
}
template <class A>
void serialize(A& archive, PrefixWanted& event) {
  archive(event.job, event.bytes);
}
template <class A>
void serialize(A& archive, ResidencyWanted& event) {
  archive(event.job, event.wanted);
}
template <class A>
void serialize(A& archive, JobReleased& event) {
  archive(event.job);
}
template <class A>
void serialize(A& archive, JobChanged& event) {
  archive(event.job, event.changes);
}
template <class A>
void serialize(A&, WorkerLost&) {}
template <class A>
void serialize(A& archive, CapacityChanged& event) {
  archive(event.capacity);
}
template <class A>
void serialize(A&, TimerFired&) {}

template <class A>
void serialize(A& archive, ReportedJob& job) {
  archive(job.offer, job.lane, job.image_offset, job.image_size, job.placed, job.arriving, job.copy,
          job.leaving, job.saving, job.prefix, job.prefix_wanted, job.pinned, job.ready, job.over,
          job.quarantined, job.iterations, job.busy, job.uncounted, job.measured, job.learnt,
          job.beside, job.turn, job.paused);
}
template <class A>
void serialize(A& archive, ReportedRegion& region) {
  archive(region.region, region.lane, region.offset, region.size);
}
template <class A>
void serialize(A& archive, WorkerReport& report) {
  archive(report.jobs, report.regions, report.last_turn, report.last_region);
}
template <class A>
void serialize(A& archive, WorkerReported& event) {
  archive(event.report);
}

}  // namespace laneway::lanes
