#include "service/trace/trace_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/number_text.h"
#include "base/printable.h"
#include "lanes/graph/limits.h"
#include "lanes/state/reason.h"

namespace laneway::service {
namespace {

std::string text(uint64_t number) { return std::to_string(number); }

std::string milliseconds_text(int64_t ns) {
  std::array<char, 48> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3f ms", static_cast<double>(ns) * 1e-6);
  return buffer.data();
}

std::string place_text(Bytes offset, Bytes size) {
  return format_bytes(size) + " at " + text(static_cast<uint64_t>(offset.count()));
}

// The sentence adds numbers up, and those of a file may be any.
std::string reason_part(lanes::Reason reason) {
  const Bytes most(static_cast<int64_t>(limits::kMaxTensorBytes));
  for (Bytes* bytes : {&reason.persistent, &reason.region, &reason.capacity, &reason.claimed,
                       &reason.largest_free}) {
    *bytes = std::clamp(*bytes, Bytes(), most);
  }
  return std::string(": ") + lanes::reason_code_name(reason.code) + ", " +
         lanes::reason_text(reason);
}

// Of equal jobs, when it is known.
std::string iteration(Duration estimate) {
  if (estimate <= Duration()) return "";
  return ", an iteration of equal jobs takes " + milliseconds_text(estimate.ns());
}

// One event or action as words.
class Words {
 public:
  explicit Words(const JobNames& names) : names_(names) {}

  std::string operator()(const lanes::JobOffered& event) const {
    std::string line = "JobOffered job " + text(event.job.value()) + " '" +
                       printable(event.options.name) + "' of session " +
                       text(event.session.value()) + ": " +
                       job_class_name(event.options.job_class) + ", priority " +
                       std::to_string(event.options.priority) + ", image " +
                       format_bytes(event.persistent) + ", lane " + format_bytes(event.ephemeral);
    if (event.options.total_iterations > 0)
      line += ", " + text(event.options.total_iterations) + " iterations";
    if (event.options.deadline > Duration())
      line += ", deadline after " + milliseconds_text(event.options.deadline.ns());
    line += iteration(event.iteration_estimate);
    if (event.options.iteration_time > Duration())
      line += ", said to take " + milliseconds_text(event.options.iteration_time.ns()) + " each";
    return line;
  }
  std::string operator()(const lanes::JobEnded& event) const {
    return "JobEnded " + job(event.job) + (event.cancelled ? ": cancelled" : "");
  }
  std::string operator()(const lanes::WorkReady& event) const {
    return "WorkReady " + job(event.job);
  }
  std::string operator()(const lanes::TurnEnded& event) const {
    return "TurnEnded turn " + text(event.turn.value()) + ": " + turn_end_name(event.end) + ", " +
           text(event.iterations) + " iterations in " + milliseconds_text(event.busy.ns()) +
           (event.abandoned > 0 ? ", " + text(event.abandoned) + " abandoned" : "") +
           (event.more_ready ? ", more is ready" : "");
  }
  std::string operator()(const lanes::TurnPaused& event) const {
    return "TurnPaused turn " + text(event.turn.value());
  }
  std::string operator()(const lanes::TurnResumed& event) const {
    return "TurnResumed turn " + text(event.turn.value()) + " after " +
           milliseconds_text(event.paused.ns());
  }
  std::string operator()(const lanes::NeedChanged& event) const {
    return "NeedChanged " + job(event.job) + ": lane " + format_bytes(event.ephemeral);
  }
  std::string operator()(const lanes::TimeLearnt& event) const {
    return "TimeLearnt " + job(event.job) + iteration(event.iteration);
  }
  std::string operator()(const lanes::ImagePlaced& event) const {
    return "ImagePlaced " + job(event.job) + (event.whole ? "" : ", its bytes are arriving");
  }
  std::string operator()(const lanes::ImageLeft& event) const {
    return "ImageLeft " + job(event.job);
  }
  std::string operator()(const lanes::CopyFailed& event) const {
    return "CopyFailed " + job(event.job);
  }
  std::string operator()(const lanes::ImageSaved& event) const {
    return "ImageSaved " + job(event.job) + (event.whole ? "" : ": no");
  }
  std::string operator()(const lanes::ImageDirty& event) const {
    return "ImageDirty " + job(event.job);
  }
  std::string operator()(const lanes::PrefixWanted& event) const {
    return "PrefixWanted " + job(event.job) + ": " + format_bytes(event.bytes);
  }
  std::string operator()(const lanes::ResidencyWanted& event) const {
    return "ResidencyWanted " + job(event.job) + ": " + lanes::residency_name(event.wanted);
  }
  std::string operator()(const lanes::JobChanged& event) const {
    return "JobChanged " + job(event.job) + ": " + job_changes_text(event.changes);
  }
  std::string operator()(const lanes::JobReleased& event) const {
    return "JobReleased " + job(event.job);
  }
  std::string operator()(const lanes::Advice& event) const {
    const policies::JobAdvice& advice = event.advice;
    return "Advice of " + job(event.job) + ": " + number_text(advice.value) + ", " +
           number_text(advice.per_busy_s) + " for a second of device time, " +
           number_text(advice.per_wait_s) + " for one of waiting" +
           (advice.slice > Duration() ? ", turns of " + milliseconds_text(advice.slice.ns()) : "");
  }
  std::string operator()(const lanes::AdviserChanged& event) const {
    switch (event.news) {
      case lanes::AdviserNews::came: return "AdviserChanged: it came";
      case lanes::AdviserNews::asks: return "AdviserChanged: it asks for all jobs";
      case lanes::AdviserNews::gone: return "AdviserChanged: it is gone";
    }
    return "AdviserChanged";
  }
  std::string operator()(const lanes::WorkerLost&) const { return "WorkerLost"; }
  std::string operator()(const lanes::CapacityChanged& event) const {
    return "CapacityChanged to " + format_bytes(event.capacity);
  }
  std::string operator()(const lanes::TimerFired&) const { return "TimerFired"; }
  std::string operator()(const lanes::WorkerReported& event) const {
    std::string line = "WorkerReported " + text(event.report.jobs.size()) + " jobs, " +
                       text(event.report.regions.size()) + " regions";
    for (const lanes::ReportedJob& one : event.report.jobs) line += "; " + job(one.offer.job);
    return line;
  }

  std::string operator()(const lanes::AdmitJob& action) const {
    return "AdmitJob " + job(action.job) + " to lane " + text(action.lane.value());
  }
  std::string operator()(const lanes::ChangeLane& action) const {
    return "ChangeLane " + job(action.job) + " to lane " + text(action.lane.value());
  }
  std::string operator()(const lanes::KeepLearnt& action) const {
    return "KeepLearnt of " + job(action.job);
  }
  std::string operator()(const lanes::TellPolicy& action) const {
    return "TellPolicy of " + job(action.facts.job) +
           (action.gone ? ", which is over"
                        : std::string(": ") + lanes::job_state_name(action.facts.state));
  }
  std::string operator()(const lanes::QueueJob& action) const {
    return "QueueJob " + job(action.job) + " at position " + text(action.reason.position) +
           reason_part(action.reason);
  }
  std::string operator()(const lanes::RefuseJob& action) const {
    return "RefuseJob " + job(action.job) + reason_part(action.reason);
  }
  std::string operator()(const lanes::RefuseWork& action) const {
    return "RefuseWork of " + job(action.job) + reason_part(action.reason);
  }
  std::string operator()(const lanes::PlaceImage& action) const {
    std::string line =
        "PlaceImage " + job(action.job) + ": " + place_text(action.offset, action.size);
    if (!action.prefix.exists()) return line;
    return line + ", beginning with " + place_text(action.prefix.offset, action.prefix.size);
  }
  std::string operator()(const lanes::ResizePool& action) const {
    return "ResizePool to " + format_bytes(action.capacity);
  }
  std::string operator()(const lanes::DropImage& action) const {
    return "DropImage " + job(action.job);
  }
  std::string operator()(const lanes::MoveImage& action) const {
    return "MoveImage " + job(action.job) + ": " + place_text(action.offset, action.size);
  }
  std::string operator()(const lanes::EvictImage& action) const {
    return "EvictImage " + job(action.job) + ": " + place_text(action.to.offset, action.size) +
           " of the " + lanes::tier_name(action.to.tier) +
           (action.keep > Bytes() ? ", " + format_bytes(action.keep) + " stay" : "");
  }
  std::string operator()(const lanes::SaveImage& action) const {
    return "SaveImage " + job(action.job) + ": " + place_text(action.to.offset, action.size) +
           " of the " + lanes::tier_name(action.to.tier);
  }
  std::string operator()(const lanes::DropCopy& action) const {
    return "DropCopy " + job(action.job);
  }
  std::string operator()(const lanes::DropPrefix& action) const {
    return "DropPrefix " + job(action.job);
  }
  std::string operator()(const lanes::OpenRegion& action) const {
    return "OpenRegion region " + text(action.region.value()) + " of lane " +
           text(action.lane.value()) + ": " + place_text(action.offset, action.size);
  }
  std::string operator()(const lanes::ResizeRegion& action) const {
    return "ResizeRegion region " + text(action.region.value()) + ": " +
           place_text(action.offset, action.size);
  }
  std::string operator()(const lanes::CloseRegion& action) const {
    return "CloseRegion region " + text(action.region.value());
  }
  std::string operator()(const lanes::GrantTurn& action) const {
    const lanes::Turn& turn = action.turn;
    const lanes::TurnBudget& budget = turn.envelope.budget;
    std::string line = "GrantTurn turn " + text(turn.id.value()) + " of lane " +
                       text(turn.lane.value()) + " to " + job(turn.job);
    if (budget.iterations > 0) line += ", " + text(budget.iterations) + " iterations";
    if (budget.slice.ns() > 0) line += ", " + milliseconds_text(budget.slice.ns());
    return line;
  }
  std::string operator()(const lanes::RecallTurn& action) const {
    return "RecallTurn turn " + text(action.turn.value()) + " of lane " + text(action.lane.value());
  }

  std::string operator()(const wire::trace::Started& entry) const {
    return "started broker " + text(entry.epoch) + ", pid " + std::to_string(entry.pid) +
           ", version " + entry.version + ", pool " +
           format_bytes(Bytes(static_cast<int64_t>(entry.pool_bytes))) + ", policy " + entry.policy;
  }
  std::string operator()(const wire::trace::Heard& entry) const {
    return "heard " + std::visit(*this, entry.event);
  }
  std::string operator()(const wire::trace::Decided& entry) const {
    return "decided " + std::visit(*this, entry.action);
  }
  std::string operator()(const wire::trace::Iterated& entry) const {
    return "iteration of " + job(entry.note.job) + " in lane " + text(entry.note.lane.value()) +
           ", graph " + text(entry.note.graph) + ": " + iteration_outcome_name(entry.note.outcome) +
           ", " + milliseconds_text(entry.note.took_ns) +
           (entry.note.paused_ns > 0 ? " and " + milliseconds_text(entry.note.paused_ns) + " paused"
                                     : "");
  }
  std::string operator()(const wire::trace::PolicySet& entry) const {
    return "policy " + entry.policy + " decides";
  }
  std::string operator()(const wire::trace::Lost& entry) const {
    return "lost " + text(entry.records) + " records and " + text(entry.iterations) +
           " iterations: there was no room for them";
  }
  std::string operator()(const wire::trace::Ended&) const { return "ended"; }
  std::string operator()(const wire::trace::CoreBegan& entry) const {
    const lanes::SchedulerConfig& config = entry.config;
    return "core of " + text(config.max_lanes) + " lanes at most, pool " +
           format_bytes(config.capacity) + ", store " + format_bytes(config.store) + ", spill " +
           format_bytes(config.spill) + ", policy " + entry.policy;
  }
  std::string operator()(const wire::trace::Handled& entry) const {
    return "handled " + text(entry.events) + " events, " + text(entry.actions) + " actions follow";
  }

 private:
  std::string job(JobId id) const { return names_.with_number(id); }

  const JobNames& names_;
};

}  // namespace

std::string entry_text(const wire::trace::Entry& entry, const JobNames& names) {
  return escaped(std::visit(Words(names), entry));
}

std::string time_text(int64_t ns) {
  std::array<char, 64> buffer{};
  const uint64_t size = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  std::snprintf(buffer.data(), buffer.size(), "%c%llu.%09llu", ns < 0 ? '-' : '+',
                static_cast<unsigned long long>(size / 1'000'000'000),
                static_cast<unsigned long long>(size % 1'000'000'000));
  return buffer.data();
}

const char* turn_end_name(lanes::TurnEnd end) {
  switch (end) {
    case lanes::TurnEnd::idle: return "idle";
    case lanes::TurnEnd::budget: return "budget";
    case lanes::TurnEnd::out_of_lane: return "out_of_lane";
    case lanes::TurnEnd::failed: return "failed";
  }
  return "unknown";
}

const char* iteration_outcome_name(wire::IterationOutcome outcome) {
  switch (outcome) {
    case wire::IterationOutcome::completed: return "completed";
    case wire::IterationOutcome::did_not_fit: return "did_not_fit";
    case wire::IterationOutcome::failed: return "failed";
    case wire::IterationOutcome::failed_for_good: return "failed_for_good";
    case wire::IterationOutcome::abandoned: return "abandoned";
    case wire::IterationOutcome::cancelled: return "cancelled";
  }
  return "unknown";
}

}  // namespace laneway::service
