#include "service/broker/worker_reader.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "base/fault_point.h"
#include "base/log.h"
#include "service/status/status.h"

namespace laneway::service {
namespace {

// What a worker may report to the core. All other events come from the broker.
bool is_workers_own(const lanes::Event& event) {
  return std::holds_alternative<lanes::WorkReady>(event) ||
         std::holds_alternative<lanes::TurnEnded>(event) ||
         std::holds_alternative<lanes::TurnPaused>(event) ||
         std::holds_alternative<lanes::TurnResumed>(event) ||
         std::holds_alternative<lanes::NeedChanged>(event) ||
         std::holds_alternative<lanes::TimeLearnt>(event) ||
         std::holds_alternative<lanes::ImagePlaced>(event) ||
         std::holds_alternative<lanes::ImageLeft>(event) ||
         std::holds_alternative<lanes::CopyFailed>(event) ||
         std::holds_alternative<lanes::ImageSaved>(event) ||
         std::holds_alternative<lanes::ImageDirty>(event) ||
         std::holds_alternative<lanes::PrefixWanted>(event) ||
         std::holds_alternative<lanes::ResidencyWanted>(event) ||
         std::holds_alternative<lanes::JobReleased>(event) ||
         std::holds_alternative<lanes::JobEnded>(event);
}

// The worker has no core to ask: the job's line of the status is put in here.
std::string with_status(const std::string& text, const std::string& line) {
  auto report = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) return text;
  report["status"] = nlohmann::ordered_json::parse(line);
  return report.dump();
}

}  // namespace

void WorkerReader::read() {
  while (auto message = to_.worker.receive()) {
    // What was run is for the trace alone.
    const bool parts = !std::holds_alternative<wire::from_worker::Events>(*message) &&
                       !std::holds_alternative<wire::from_worker::Iterations>(*message);
    if (parts) hand_events_on();
    std::visit([this](const auto& one) { on(one); }, *message);
  }
  hand_events_on();
}

void WorkerReader::hand_events_on() {
  if (!events_.empty()) to_.events.on_events(std::exchange(events_, {}));
}

void WorkerReader::on(const wire::from_worker::Reply& message) {
  if (const auto addition = to_.requests.take_addition(message.request)) {
    on_reply(*addition, message);
  } else if (const auto question = to_.requests.take_question(message.request)) {
    on_reply(*question, message);
  }
}

void WorkerReader::on_reply(const WorkerRequests::Question& question,
                            const wire::from_worker::Reply& message) {
  ReplyTo to = question.to;
  if (!message.ok && (question.drops_graph() || !question.drops())) {
    return to_.replies.refuse(to, {message.code, message.message});
  }
  JobEntry* job = to_.table.find(question.job);
  if (question.drops_graph() && job != nullptr) to_.parts.on_graph_dropped(*job, question.graph);
  // A segment or link that the worker does not know is gone just as well.
  to_.replies.answer(to, wire::Done{});
}

// What a graph is refused for may be a difference between two versions of torch.
Error WorkerReader::with_torch(const wire::from_worker::Reply& message,
                               const std::string& client) const {
  Error error{message.code, message.message};
  const bool differ =
      !client.empty() && !torch_.running.empty() && !same_torch_minor(client, torch_.running);
  if (message.code != ErrorCode::invalid_graph || !differ) return error;
  error.message += "; the graph was captured with torch " + client +
                   ", and the service runs torch " + torch_.running +
                   ": use the same minor version on both sides, or leave out what only one has";
  return error;
}

void WorkerReader::on_reply(const JobPart& added, const wire::from_worker::Reply& message) {
  JobEntry* job = to_.table.find(added.job);
  if (job == nullptr) return;
  std::optional<Error> refused;
  if (!message.ok) refused = with_torch(message, job->record.torch_version);
  if (added.kind != JobPart::Kind::job) {
    to_.parts.on_addition(*job, added, refused);
  } else if (refused) {
    to_.events.on_job_refused(*job, *refused);
  }
}

void WorkerReader::on(const wire::from_worker::JobAdded& message) {
  to_.requests.take_addition(message.request);
  JobEntry* job = to_.table.find(JobId(message.job));
  if (job == nullptr) return;
  fault_point("broker.job_added");
  job->added = true;
  job->persistent = Bytes(static_cast<int64_t>(message.persistent));
  job->ephemeral = Bytes(static_cast<int64_t>(message.ephemeral));
  job->context_key = message.context_key;
  job->iteration_estimate = message.iteration_estimate;
  if (!job->record.first_graph_dropped) job->graphs.at(0).info = message.graph;
  to_.events.on_job_added(*job);
}

void WorkerReader::on(const wire::from_worker::GraphAdded& message) {
  to_.requests.take_addition(message.request);
  JobEntry* job = to_.table.find(JobId(message.job));
  if (job != nullptr) to_.parts.on_graph_added(*job, message.graph);
}

void WorkerReader::on(const wire::from_worker::Events& message) {
  for (const lanes::Event& event : message.events) {
    if (is_workers_own(event)) {
      events_.push_back(event);
    } else {
      log_warning("the worker sent the core an event that only the broker may send");
    }
  }
}

void WorkerReader::on(const wire::from_worker::JobGone& message) {
  std::optional<Error> why;
  if (message.failed) why = Error{message.code, message.message};
  to_.events.on_job_gone(JobId(message.job), why);
}

void WorkerReader::on(const wire::from_worker::JobText& message) {
  const auto question = to_.requests.take_question(message.request);
  if (!question) return;
  const JobEntry* job = to_.table.find(question->job);
  const wire::JobFacts facts =
      job == nullptr ? wire::JobFacts{.job = question->job, .user = {}} : to_.progress.facts(*job);
  const std::string line = job_line_json(to_.progress.snapshot(), question->job, facts);
  to_.replies.send(question->to, wire::Text{with_status(message.text, line)});
}

void WorkerReader::on(const wire::from_worker::Report& message) {
  to_.events.on_report(message.report);
}

void WorkerReader::on(const wire::from_worker::Iterations& message) {
  if (trace_ != nullptr) trace_->saw(message);
}

}  // namespace laneway::service
