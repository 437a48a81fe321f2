// The registry, part: messages of the worker, and what each of them changes.
#include <nlohmann/json.hpp>
#include <utility>

#include "base/fault_point.h"
#include "base/log.h"
#include "service/broker/job_registry.h"
#include "service/broker/user_names.h"
#include "service/status/status.h"

namespace laneway::service {
namespace {

// What a worker may tell the core. Everything else comes from here.
bool is_workers_own(const lanes::Event& event) {
  return std::holds_alternative<lanes::WorkReady>(event) ||
         std::holds_alternative<lanes::TurnEnded>(event) ||
         std::holds_alternative<lanes::NeedChanged>(event) ||
         std::holds_alternative<lanes::ImagePlaced>(event) ||
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

void JobRegistry::read_worker() {
  while (auto message = worker_.receive()) {
    std::visit([this](const auto& one) { on(one); }, *message);
  }
}

void JobRegistry::on(const wire::from_worker::Reply& message) {
  if (const auto addition = requests_.take_addition(message.request)) {
    on_reply(*addition, message);
  } else if (const auto question = requests_.take_question(message.request)) {
    on_reply(*question, message);
  }
}

void JobRegistry::on_reply(const WorkerRequests::Question& question,
                           const wire::from_worker::Reply& message) {
  ReplyTo to = question.to;
  JobEntry* job = table_.find(question.job);
  if (!message.ok && (question.drops_graph() || question.is_report())) {
    return replies_.refuse(to, {message.code, message.message});
  }
  if (question.drops_graph() && job != nullptr) {
    if (question.graph == 0) {
      // The graph itself stays held: it is what the job's layout is made from.
      job->record.first_graph_dropped = true;
      job->graphs.at(0).info.reset();
      store_.hold_job(*job);
    } else {
      store_.release_graph(question.job, question.graph);
      job->graphs.erase(question.graph);
    }
  }
  // A segment or link that the worker does not know is gone just as well.
  replies_.answer(to, wire::Done{});
}

// The plain answer to something that was added; refusals undo it.
void JobRegistry::on_reply(const WorkerRequests::Addition& added,
                           const wire::from_worker::Reply& message) {
  using Part = WorkerRequests::Addition::Part;
  JobEntry* job = table_.find(added.job);
  if (job == nullptr) return;
  const Error error{message.code, message.message};
  if (added.part == Part::job) {
    if (message.ok) return;
    // The worker has nothing of it, so nobody else tells its clients.
    for (const auto& [number, link] : job->links) link.files.close_ring(error);
    return forget(*job, error);
  }
  if (added.part == Part::graph) {
    const auto graph = job->graphs.find(added.number);
    if (message.ok || graph == job->graphs.end()) return;
    replies_.refuse(graph->second.reply, error);
    store_.release_graph(added.job, added.number);
    job->graphs.erase(graph);
    return;
  }
  const auto link = job->links.find(added.number);
  if (link == job->links.end()) return;
  if (added.part == Part::link) {
    if (message.ok) return;
    log_error("job '" + job->name() + "' has a link less: " + error.message);
    link->second.files.close_ring(error);
    return;
  }
  const auto segment = link->second.segments.find(added.segment);
  if (segment == link->second.segments.end()) return;
  if (message.ok) {
    segment->second.added = true;
    return replies_.answer(segment->second.reply, wire::Done{});
  }
  replies_.refuse(segment->second.reply, error);
  store_.release_segment(added.job, added.number, added.segment);
  link->second.segments.erase(segment);
}

void JobRegistry::on(const wire::from_worker::JobAdded& message) {
  requests_.take_addition(message.request);
  JobEntry* job = table_.find(JobId(message.job));
  if (job == nullptr) return;
  fault_point("broker.job_added");
  job->added = true;
  job->persistent = Bytes(static_cast<int64_t>(message.persistent));
  job->ephemeral = Bytes(static_cast<int64_t>(message.ephemeral));
  job->context_key = message.context_key;
  if (!job->record.first_graph_dropped) job->graphs.at(0).info = message.graph;
  offer(*job);
  answer_created(*job);
  for (const auto& [number, link] : job->links) answer_attached(*job, number);
}

void JobRegistry::on(const wire::from_worker::GraphAdded& message) {
  requests_.take_addition(message.request);
  JobEntry* job = table_.find(JobId(message.job));
  if (job == nullptr) return;
  const auto graph = job->graphs.find(message.graph.number);
  if (graph == job->graphs.end()) return;
  graph->second.info = message.graph;
  replies_.answer(graph->second.reply, wire::GraphAdded{message.graph});
}

void JobRegistry::on(const wire::from_worker::Events& message) {
  for (const lanes::Event& event : message.events) on_event(event);
}

void JobRegistry::on_event(const lanes::Event& event) {
  if (!is_workers_own(event)) {
    log_warning("the worker told the core something that is not its business");
    return;
  }
  // Before the report they speak of what the core has not heard of.
  if (!core_->running()) return;
  core_->post(event);
  if (const auto* placed = std::get_if<lanes::ImagePlaced>(&event)) {
    if (JobEntry* job = table_.find(placed->job)) image_placed(*job);
  }
  if (std::holds_alternative<lanes::TurnEnded>(event)) fault_point("broker.turn_ended");
}

void JobRegistry::on(const wire::from_worker::JobGone& message) {
  const JobId id(message.job);
  // Mostly the core let go of it; if not, it does so now.
  core_->post(lanes::JobEnded{.job = id, .cancelled = true});
  JobEntry* job = table_.find(id);
  if (job == nullptr) return;
  std::optional<Error> why;
  if (message.failed) why = Error{message.code, message.message};
  forget(*job, why);
  fault_point("broker.job_gone");
}

void JobRegistry::on(const wire::from_worker::JobText& message) {
  const auto question = requests_.take_question(message.request);
  if (!question) return;
  const JobEntry* job = table_.find(question->job);
  const JobFacts facts{.user = job == nullptr ? "" : user_name(job->record.user), .wait_s = {}};
  const std::string line = job_line_json(snapshot(), question->job, facts);
  ReplyTo to = question->to;
  replies_.answer(to, wire::Text{with_status(message.text, line)});
}

void JobRegistry::on(const wire::from_worker::Iterations& message) {
  if (trace_ != nullptr) trace_->saw(message);
}

}  // namespace laneway::service
