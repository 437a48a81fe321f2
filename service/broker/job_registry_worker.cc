// The registry and the worker: what it is told of jobs, and what its answers mean.
#include <nlohmann/json.hpp>
#include <utility>

#include "base/fault_point.h"
#include "base/log.h"
#include "service/broker/job_registry.h"
#include "service/broker/keys.h"
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

void JobRegistry::tell_job(JobEntry& job) {
  wire::to_worker::AddJob message;
  message.request = worker_.next_request();
  message.job = job.id().value();
  message.session = job.owner().value();
  message.user = job.record.user;
  message.record = job.record.record;
  message.spec = job.record.spec;
  told_[message.request] = {.job = job.id(), .part = Told::Part::job, .number = 0, .segment = 0};
  std::vector<const Descriptor*> fds{&job.graphs.at(0).graph};
  if (job.initial.valid()) fds.push_back(&job.initial);
  worker_.send(message, fds);
}

void JobRegistry::tell_graph(JobEntry& job, uint32_t number) {
  wire::to_worker::AddGraph message;
  message.request = worker_.next_request();
  message.job = job.id().value();
  message.numbered = true;
  message.number = number;
  told_[message.request] = {
      .job = job.id(), .part = Told::Part::graph, .number = number, .segment = 0};
  worker_.send(message, {&job.graphs.at(number).graph});
}

void JobRegistry::tell_link(JobEntry& job, uint32_t number) {
  wire::to_worker::AddLink message;
  message.request = worker_.next_request();
  message.job = job.id().value();
  message.link = number;
  told_[message.request] = {
      .job = job.id(), .part = Told::Part::link, .number = number, .segment = 0};
  const LinkFiles& files = job.links.at(number).files;
  worker_.send(message, {&files.ring, &files.submit, &files.done_write});
}

void JobRegistry::tell_segment(JobEntry& job, uint32_t link, uint32_t segment) {
  const SegmentEntry& entry = job.links.at(link).segments.at(segment);
  wire::to_worker::AddSegment message;
  message.request = worker_.next_request();
  message.job = job.id().value();
  message.link = link;
  message.segment = segment;
  message.bytes = entry.bytes;
  told_[message.request] = {
      .job = job.id(), .part = Told::Part::segment, .number = link, .segment = segment};
  worker_.send(message, {&entry.memory});
}

void JobRegistry::tell_close(const JobEntry& job) {
  wire::to_worker::CloseJob message;
  message.job = job.id().value();
  message.code = job.closing->code;
  message.reason = short_enough(job.closing->message);
  worker_.send(message);
}

void JobRegistry::read_worker() {
  while (auto message = worker_.receive()) {
    std::visit([this](const auto& one) { on(one); }, *message);
  }
}

void JobRegistry::on(const wire::from_worker::Reply& message) {
  if (const auto told = told_.find(message.request); told != told_.end()) {
    const JobId job = told->second.job;
    on_told_reply(job, message);
    return;
  }
  const auto found = asks_.find(message.request);
  if (found == asks_.end()) return;
  Ask what = std::move(found->second);
  asks_.erase(found);
  const bool drops_graph = std::holds_alternative<wire::to_worker::DropGraph>(what.question);
  const bool reports = std::holds_alternative<wire::to_worker::JobReport>(what.question);
  JobEntry* job = table_.find(what.job);
  if (!message.ok && (drops_graph || reports)) {
    return replies_.refuse(what.to, {message.code, message.message});
  }
  if (drops_graph && job != nullptr) {
    if (what.graph == 0) {
      // The graph itself stays held: it is what the job's layout is made from.
      job->record.first_graph_dropped = true;
      job->graphs.at(0).info.reset();
      hold_job(*job);
    } else {
      holder_.release(graph_key(what.job, what.graph));
      job->graphs.erase(what.graph);
    }
  }
  // A segment or link that the worker does not know is gone just as well.
  replies_.answer(what.to, wire::Done{});
}

// The plain answer to something that was added; refusals undo it.
void JobRegistry::on_told_reply(JobId id, const wire::from_worker::Reply& message) {
  const Told told = told_.extract(message.request).mapped();
  JobEntry* job = table_.find(id);
  if (job == nullptr) return;
  const Error error{message.code, message.message};
  if (told.part == Told::Part::job) {
    if (message.ok) return;
    // The worker has nothing of it, so nobody else tells its clients.
    for (const auto& [number, link] : job->links) link.files.close_ring(error);
    return forget(*job, error);
  }
  if (told.part == Told::Part::graph) {
    const auto graph = job->graphs.find(told.number);
    if (message.ok || graph == job->graphs.end()) return;
    replies_.refuse(graph->second.reply, error);
    holder_.release(graph_key(id, told.number));
    job->graphs.erase(graph);
    return;
  }
  const auto link = job->links.find(told.number);
  if (link == job->links.end()) return;
  if (told.part == Told::Part::link) {
    if (message.ok) return;
    log_error("job '" + job->name() + "' has a link less: " + error.message);
    link->second.files.close_ring(error);
    return;
  }
  const auto segment = link->second.segments.find(told.segment);
  if (segment == link->second.segments.end()) return;
  if (message.ok) {
    segment->second.added = true;
    return replies_.answer(segment->second.reply, wire::Done{});
  }
  replies_.refuse(segment->second.reply, error);
  holder_.release(segment_key(id, told.number, told.segment));
  link->second.segments.erase(segment);
}

void JobRegistry::on(const wire::from_worker::JobAdded& message) {
  told_.erase(message.request);
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
  told_.erase(message.request);
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
  const auto found = asks_.find(message.request);
  if (found == asks_.end()) return;
  Ask what = std::move(found->second);
  asks_.erase(found);
  const JobEntry* job = table_.find(what.job);
  const JobFacts facts{.user = job == nullptr ? "" : user_name(job->record.user), .wait_s = {}};
  const std::string line = job_line_json(snapshot(), what.job, facts);
  replies_.answer(what.to, wire::Text{with_status(message.text, line)});
}

void JobRegistry::on(const wire::from_worker::Iterations& message) {
  if (trace_ != nullptr) trace_->saw(message);
}

}  // namespace laneway::service
