#include "service/trace/chrome_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "service/trace/trace_text.h"

namespace laneway::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;
constexpr uint64_t kServiceTrack = 0;  // lanes are numbered from 1

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

// A slice of a lane's track.
struct ChromeTrace::Event {
  LaneId lane;
  const char* category;
  std::string name;
  int64_t start_ns;
  int64_t took_ns;
  Json facts;
};

ChromeTrace::ChromeTrace(std::ostream& out, int64_t base_ns)
    : out_(out), base_ns_(base_ns), last_ns_(base_ns) {
  out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  write(dumped({{"name", "process_name"},
                {"ph", "M"},
                {"pid", kProcess},
                {"args", {{"name", "lanewayd"}}}}));
  write(dumped({{"name", "thread_name"},
                {"ph", "M"},
                {"pid", kProcess},
                {"tid", kServiceTrack},
                {"args", {{"name", "service"}}}}));
}

void ChromeTrace::write(const std::string& json) {
  out_ << (std::exchange(first_, false) ? "\n" : ",\n") << json;
}

void ChromeTrace::name_lane(LaneId lane) {
  if (!lanes_.insert(lane).second) return;
  write(dumped({{"name", "thread_name"},
                {"ph", "M"},
                {"pid", kProcess},
                {"tid", lane.value()},
                {"args", {{"name", "lane " + std::to_string(lane.value())}}}}));
}

void ChromeTrace::slice(const Event& event) {
  name_lane(event.lane);
  write(dumped({{"name", event.name},
                {"cat", event.category},
                {"ph", "X"},
                {"pid", kProcess},
                {"tid", event.lane.value()},
                {"ts", microseconds(event.start_ns)},
                {"dur", static_cast<double>(event.took_ns) * 1e-3},
                {"args", event.facts}}));
}

void ChromeTrace::instant(int64_t now, const std::string& name, const std::string& what) {
  write(dumped({{"name", name},
                {"cat", "service"},
                {"ph", "i"},
                {"s", "p"},
                {"pid", kProcess},
                {"tid", kServiceTrack},
                {"ts", microseconds(now)},
                {"args", {{"what", what}}}}));
}

void ChromeTrace::add(const wire::trace::Record& record) {
  const int64_t now = record.time_ns;
  last_ns_ = std::max(last_ns_, now);
  const std::string what = entry_text(record.entry, names_);
  if (const auto* heard = std::get_if<wire::trace::Heard>(&record.entry)) {
    names_.on_event(heard->event);
    add(heard->event, now);
  } else if (const auto* decided = std::get_if<wire::trace::Decided>(&record.entry)) {
    add(decided->action, now);
  } else if (const auto* iterated = std::get_if<wire::trace::Iterated>(&record.entry)) {
    const wire::IterationNote& note = iterated->note;
    last_ns_ = std::max(last_ns_, ns_plus(note.start_ns, ns_plus(note.took_ns, note.paused_ns)));
    slice({note.lane,
           "iteration",
           "iteration of " + names_.alone(note.job),
           note.start_ns,
           ns_plus(note.took_ns, note.paused_ns),
           {{"job", note.job.value()},
            {"name", names_.alone(note.job)},
            {"graph", note.graph},
            {"paused_ms", static_cast<double>(note.paused_ns) * 1e-6},
            {"outcome", iteration_outcome_name(note.outcome)}}});
  } else if (std::holds_alternative<wire::trace::Started>(record.entry)) {
    instant(now, "broker started", what);
  } else if (std::holds_alternative<wire::trace::PolicySet>(record.entry)) {
    instant(now, "policy", what);
  } else if (std::holds_alternative<wire::trace::CoreBegan>(record.entry)) {
    knows_worker_ = false;
  } else if (std::holds_alternative<wire::trace::Lost>(record.entry)) {
    instant(now, "lost", what);
  }
  if (!pool_.on_entry(record.entry)) return;
  write(dumped({{"name", "pool bytes"},
                {"ph", "C"},
                {"pid", kProcess},
                {"ts", microseconds(now)},
                {"args",
                 {{"persistent", pool_.persistent()},
                  {"regions", pool_.regions()},
                  {"free", pool_.free()}}}}));
}

void ChromeTrace::add(const lanes::Event& event, int64_t now) {
  const std::string what = entry_text(wire::trace::Heard{event}, names_);
  if (const auto* ended = std::get_if<lanes::TurnEnded>(&event)) {
    end_turn(ended->turn, now, turn_end_name(ended->end), ended->iterations);
  } else if (const auto* paused = std::get_if<lanes::TurnPaused>(&event)) {
    const auto turn = turns_.find(paused->turn);
    if (turn != turns_.end()) turn->second.paused_ns = now;
  } else if (const auto* resumed = std::get_if<lanes::TurnResumed>(&event)) {
    end_pause(resumed->turn, now, resumed->paused);
  } else if (const auto* offered = std::get_if<lanes::JobOffered>(&event)) {
    instant(now, "offered: " + names_.alone(offered->job), what);
  } else if (const auto* over = std::get_if<lanes::JobEnded>(&event)) {
    instant(now, "ended: " + names_.alone(over->job), what);
  } else if (std::holds_alternative<lanes::WorkerLost>(event)) {
    // What a core hears before any report: turns may go on in a worker that it does not know yet.
    if (!knows_worker_) return;
    end_turns(now, "worker lost", nullptr);
    instant(now, "worker lost", what);
  } else if (const auto* reported = std::get_if<lanes::WorkerReported>(&event)) {
    knows_worker_ = true;
    end_turns(now, "not reported", &reported->report);
    for (const lanes::ReportedJob& job : reported->report.jobs) {
      if (job.turn.valid()) turns_.try_emplace(job.turn, OpenTurn{job.lane, job.offer.job, now, 0});
    }
    instant(now, "worker reported", what);
  }
}

void ChromeTrace::add(const lanes::Action& action, int64_t now) {
  const std::string what = entry_text(wire::trace::Decided{action}, names_);
  if (const auto* grant = std::get_if<lanes::GrantTurn>(&action)) {
    turns_[grant->turn.id] = {grant->turn.lane, grant->turn.job, now, 0};
  } else if (const auto* admit = std::get_if<lanes::AdmitJob>(&action)) {
    instant(now, "admitted: " + names_.alone(admit->job), what);
  } else if (const auto* change = std::get_if<lanes::ChangeLane>(&action)) {
    instant(now, "to another lane: " + names_.alone(change->job), what);
  } else if (const auto* queue = std::get_if<lanes::QueueJob>(&action)) {
    instant(now, "queued: " + names_.alone(queue->job), what);
  } else if (const auto* refuse = std::get_if<lanes::RefuseJob>(&action)) {
    instant(now, "refused: " + names_.alone(refuse->job), what);
  }
}

void ChromeTrace::end_pause(TurnId turn, int64_t now, Duration paused) {
  const auto found = turns_.find(turn);
  if (found == turns_.end() || found->second.paused_ns == 0) return;
  OpenTurn& open = found->second;
  const int64_t start_ns = std::exchange(open.paused_ns, 0);
  slice({open.lane,
         "pause",
         names_.alone(open.job) + " is held",
         start_ns,
         std::max<int64_t>(ns_between(start_ns, now), 0),
         {{"job", open.job.value()},
          {"turn", turn.value()},
          {"paused_ms", static_cast<double>(paused.ns()) * 1e-6}}});
}

void ChromeTrace::end_turn(TurnId turn, int64_t now, const std::string& why, uint64_t iterations) {
  const auto found = turns_.find(turn);
  if (found == turns_.end()) return;  // its beginning is not in the trace
  const OpenTurn open = found->second;
  turns_.erase(found);
  slice({open.lane,
         "turn",
         names_.alone(open.job),
         open.start_ns,
         std::max<int64_t>(ns_between(open.start_ns, now), 0),
         {{"job", open.job.value()},
          {"turn", turn.value()},
          {"end", why},
          {"iterations", iterations}}});
}

void ChromeTrace::end_turns(int64_t now, const std::string& why, const lanes::WorkerReport* but) {
  std::vector<TurnId> over;
  for (const auto& [turn, open] : turns_) {
    const auto has_it = [turn = turn](const lanes::ReportedJob& job) { return job.turn == turn; };
    if (but != nullptr && std::any_of(but->jobs.begin(), but->jobs.end(), has_it)) continue;
    over.push_back(turn);
  }
  for (const TurnId turn : over) end_turn(turn, now, why, 0);
}

void ChromeTrace::finish() {
  end_turns(last_ns_, "end of the trace", nullptr);
  out_ << "\n]}\n";
}

}  // namespace laneway::service
