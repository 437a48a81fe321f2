#include "lanes/state/reason.h"

#include <algorithm>
#include <array>

namespace laneway::lanes {
namespace {

std::string need(const Reason& reason) {
  return "it needs " + format_bytes(reason.persistent) + " for its image and " +
         format_bytes(reason.region) + " for a lane, together " +
         format_bytes(reason.persistent + reason.region);
}

std::string pool(const Reason& reason) {
  return format_bytes(reason.claimed) + " of the pool's " + format_bytes(reason.capacity) +
         " are claimed";
}

// By whom, and what ends the wait.
std::string who_holds(const Reason& reason) {
  const Holders& holders = reason.holders;
  const std::array all{holders.first, holders.second, holders.third};
  const auto count = static_cast<size_t>(std::find(all.begin(), all.end(), JobId()) - all.begin());
  if (count == 0) return "";
  std::string text = holders.others > 0 ? ", most of it by jobs " : ", by job";
  if (holders.others == 0) text += count == 1 ? " " : "s ";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += i + 1 == count && holders.others == 0 ? " and " : ", ";
    text += std::to_string(all.at(i).value());
  }
  if (holders.others > 0) text += " and " + std::to_string(holders.others) + " others";
  return text;
}

std::string goes_on(const Reason& reason, bool away) {
  if (away) {
    return ". It comes back when others have had their time in the pool, which takes nobody's end: "
           "idle ones make room soon, those with work in the policy's order (`laneway set` and "
           "`laneway policy` change it); `laneway unload` sends an idle one out, `laneway unpin` "
           "lets a pinned one go.";
  }
  if (reason.may_leave) {
    return ". It goes on when others make room: idle ones do soon, those with work in the policy's "
           "order (`laneway set` and `laneway policy` change it) or when they end; `laneway "
           "unload` "
           "sends an idle one out, `laneway unpin` lets a pinned one go.";
  }
  return ". It goes on when others end (`laneway kill` ends one) or shrink. With memory for images "
         "outside of the pool (--staging) idle ones would make room.";
}

std::string place(const Reason& reason) {
  if (reason.position == 0) return "";
  return " (position " + std::to_string(reason.position) + " in the queue)";
}

std::string exchange(const Reason& reason) {
  return need(reason) + ". Outside of the pool its image finds no place of its own to which it " +
         "could leave (of " + format_bytes(reason.outside) + ", " +
         format_bytes(reason.outside_free) + " in one piece are nobody's), or no room comes free " +
         "for it in the pool of " + format_bytes(reason.capacity) + ", where images of " +
         format_bytes(reason.staying) + " stay because they have no such place.";
}

std::string waits_turn_text(const Reason& reason) {
  std::string text = "The job waits for its turn";
  if (reason.lane.valid()) text += " in lane " + std::to_string(reason.lane.value());
  if (reason.behind.valid())
    text += ", which job " + std::to_string(reason.behind.value()) + " has";
  return text + ". The policy says who is next; `laneway set` and `laneway policy` change that.";
}

std::string takes_turns_text(const Reason& reason) {
  std::string text = "The job waits for its turn: ";
  text += reason.lane.valid() ? "lane " + std::to_string(reason.lane.value()) : "its lane";
  text += " takes turns with that of ";
  text += reason.behind.valid() ? "job " + std::to_string(reason.behind.value()) : "another job";
  return text +
         ", while it is measured how many lanes together do most. It goes on after a turn of each "
         "other lane at most; lanewayd with --lanes N measures nothing.";
}

std::string no_room_text(const Reason& reason) {
  return "The iteration was not run: it needs a lane of " + format_bytes(reason.region) +
         ", and there is no room to grow it; " + pool(reason) + ", the longest free piece has " +
         format_bytes(reason.largest_free) +
         ", and no other job of the pool can make room. The job goes on with its other calls. Make "
         "this call smaller (batch), give the service a larger pool, or memory for images outside "
         "of it (--staging).";
}

std::string waits_for_room_text(const Reason& reason, bool away) {
  const std::string held = pool(reason) + who_holds(reason) + goes_on(reason, away);
  const std::string free = "the longest free piece has " + format_bytes(reason.largest_free);
  switch (reason.code) {
    case ReasonCode::pool_fragmented:
      return "The job waits for memory in one piece" + place(reason) + ": " + need(reason) +
             ", and " + free + "; " + held;
    case ReasonCode::region_too_small:
      return "The job is held: its iterations need a lane of " + format_bytes(reason.region) +
             " and there is no room to grow it yet: " + free + ", and " + held;
    default:
      return "The job waits for memory" + place(reason) + ": " + need(reason) + ", and " + held;
  }
}

}  // namespace

const char* reason_code_name(ReasonCode code) {
  switch (code) {
    case ReasonCode::none: return "none";
    case ReasonCode::larger_than_pool: return "larger_than_pool";
    case ReasonCode::pool_full: return "pool_full";
    case ReasonCode::pool_fragmented: return "pool_fragmented";
    case ReasonCode::region_too_small: return "region_too_small";
    case ReasonCode::behind_others: return "behind_others";
    case ReasonCode::lanes_exhausted: return "lanes_exhausted";
    case ReasonCode::too_many_jobs: return "too_many_jobs";
    case ReasonCode::context_conflict: return "context_conflict";
    case ReasonCode::quarantined: return "quarantined";
    case ReasonCode::cancelled: return "cancelled";
    case ReasonCode::exchange_full: return "exchange_full";
    case ReasonCode::contradicted: return "contradicted";
    case ReasonCode::waits_turn: return "waits_turn";
    case ReasonCode::copy_under_way: return "copy_under_way";
    case ReasonCode::worker_starting: return "worker_starting";
    case ReasonCode::paused: return "paused";
    case ReasonCode::no_room_to_grow: return "no_room_to_grow";
    case ReasonCode::takes_turns: return "takes_turns";
    case ReasonCode::no_exchange: return "no_exchange";
    case ReasonCode::no_way_back: return "no_way_back";
  }
  return "unknown";
}

std::string reason_text(const Reason& reason, bool away) {
  switch (reason.code) {
    case ReasonCode::none: return "Nothing is in the way.";
    case ReasonCode::larger_than_pool:
      return "The job can never fit: " + need(reason) + ", but the pool has " +
             format_bytes(reason.capacity) +
             " for jobs even when it is empty. Give the service a larger pool or make the job "
             "smaller (batch, model).";
    case ReasonCode::pool_full:
    case ReasonCode::pool_fragmented:
    case ReasonCode::region_too_small: return waits_for_room_text(reason, away);
    case ReasonCode::behind_others:
      return "The job waits" + place(reason) +
             ": the policy admits others first. It goes on when they are in and there is room; "
             "`laneway set` and `laneway policy` change who is first.";
    case ReasonCode::lanes_exhausted:
      return "The job waits for a lane" + place(reason) + ": all lanes are taken" +
             who_holds(reason) +
             ", and none can be shared with it. It goes on when a lane gets free; more lanes "
             "(--lanes) avoid this.";
    case ReasonCode::too_many_jobs:
      return "The service knows as many jobs as it can (position " +
             std::to_string(reason.position) +
             " would be past its limit). Close jobs that are "
             "not needed any more, then offer this one again.";
    case ReasonCode::context_conflict:
      return "The job waits for its turn: running jobs have other process-wide numeric settings. "
             "It runs when their turns end; give the jobs equal settings to run them side by side.";
    case ReasonCode::quarantined:
      return "The job is quarantined: its worker ended twice at the same place of its iterations. "
             "None of them is run any more, and its state can be read. `laneway release` tries it "
             "again.";
    case ReasonCode::cancelled: return "The job was cancelled by its client or an operator.";
    case ReasonCode::exchange_full:
      return "The job waits for room to change places with others: " + exchange(reason) +
             " It starts when another job ends; more memory for images outside of the pool "
             "(--staging, --spill) or a larger pool (--pool) avoids this.";
    case ReasonCode::no_exchange:
      return "The job was refused, because others could then never come back: " + exchange(reason) +
             " No training's end would change that. Close models that are not needed any more, or "
             "start the service with more memory for images outside of the pool (--staging, "
             "--spill) or a larger pool (--pool).";
    case ReasonCode::no_way_back:
      return "Nothing of the job is run: its image is outside of the pool and can't come back; " +
             need(reason) + ", and in the pool of " + format_bytes(reason.capacity) + " " +
             format_bytes(reason.staying) +
             " are of images that have no place outside to which they could leave, nor give up "
             "their lanes. Its state is kept. Close other jobs, or start the service with more "
             "memory for images outside of "
             "the pool (--staging, --spill) or a larger pool (--pool).";
    case ReasonCode::contradicted:
      return "The job was ended: after a restart of the service its worker's report of lanes, "
             "turns and memory contradicts itself where this job stands, so its bytes can't be "
             "trusted. Start it again from your last state_dict.";
    case ReasonCode::waits_turn: return waits_turn_text(reason);
    case ReasonCode::copy_under_way:
      return "The job's image of " + format_bytes(reason.persistent) +
             " is being copied; its work goes on when the bytes that it needs are in the pool.";
    case ReasonCode::worker_starting:
      return "The service's worker is being started; the job waits for it.";
    case ReasonCode::paused:
      return "The job's iteration is held between two nodes while one of a more urgent job runs in "
             "another lane. It goes on when that has ended; `laneway set` a priority changes who "
             "is more urgent.";
    case ReasonCode::no_room_to_grow: return no_room_text(reason);
    case ReasonCode::takes_turns: return takes_turns_text(reason);
  }
  return "The reason is unknown.";
}

}  // namespace laneway::lanes
