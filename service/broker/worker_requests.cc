#include "service/broker/worker_requests.h"

#include <utility>

#include "service/broker/link_files.h"
#include "service/wire/codec.h"

namespace laneway::service {

namespace {

using Kind = JobPart::Kind;

template <class M>
Result<std::optional<Outbox::Letter>> with_copies(const M& message,
                                                  const std::vector<const Descriptor*>& fds) {
  auto copied = copies(fds);
  if (!copied) return copied.error();
  return std::optional(
      Outbox::Letter{.bytes = wire::encode(message), .fds = std::move(copied).value()});
}

wire::to_worker::AddJob job_message(uint64_t request, const JobEntry& job) {
  wire::to_worker::AddJob message;
  message.request = request;
  message.job = job.id().value();
  message.session = job.owner().value();
  message.user = job.record.user;
  message.record = job.record.record;
  message.spec = job.record.spec;
  return message;
}

}  // namespace

void WorkerRequests::send_job(const JobEntry& job) { send({.job = job.id(), .kind = Kind::job}); }

void WorkerRequests::send_graph(const JobEntry& job, uint32_t number) {
  send({.job = job.id(), .kind = Kind::graph, .number = number});
}

void WorkerRequests::send_link(const JobEntry& job, uint32_t number) {
  send({.job = job.id(), .kind = Kind::link, .number = number});
}

void WorkerRequests::send_segment(const JobEntry& job, uint32_t link, uint32_t segment) {
  send({.job = job.id(), .kind = Kind::segment, .number = link, .segment = segment});
}

void WorkerRequests::send(const JobPart& part) {
  const uint64_t request = worker_.next_request();
  additions_[request] = part;
  worker_.send_later([this, request, part] { return letter(request, part); });
}

Result<WorkerRequests::Letter> WorkerRequests::letter(uint64_t request, const JobPart& part) {
  const auto gone = [this, request] {
    additions_.erase(request);
    return Letter();
  };
  const JobEntry* job = table_.find(part.job);
  if (job == nullptr || !additions_.contains(request)) return gone();
  if (part.kind == Kind::job) return with_copies(job_message(request, *job), job->descriptors());
  if (part.kind == Kind::graph) {
    const auto graph = job->graphs.find(part.number);
    if (graph == job->graphs.end()) return gone();
    wire::to_worker::AddGraph message;
    message.request = request;
    message.job = part.job.value();
    message.numbered = true;
    message.number = part.number;
    return with_copies(message, {&graph->second.graph});
  }
  const auto link = job->links.find(part.number);
  if (link == job->links.end()) return gone();
  if (part.kind == Kind::link) {
    wire::to_worker::AddLink message;
    message.request = request;
    message.job = part.job.value();
    message.link = part.number;
    message.owners = link->second.session == job->owner();
    const LinkFiles& files = link->second.files;
    return with_copies(message, {&files.ring, &files.submit, &files.done_write});
  }
  const auto segment = link->second.segments.find(part.segment);
  if (segment == link->second.segments.end()) return gone();
  wire::to_worker::AddSegment message;
  message.request = request;
  message.job = part.job.value();
  message.link = part.number;
  message.segment = part.segment;
  message.bytes = segment->second.bytes;
  return with_copies(message, {&segment->second.memory});
}

void WorkerRequests::send_close(const JobEntry& job) {
  wire::to_worker::CloseJob message;
  message.job = job.id().value();
  message.code = job.closing->code;
  message.reason = short_enough(job.closing->message);
  worker_.send(message);
}

void WorkerRequests::ask(Question question) {
  const uint64_t request = worker_.next_request();
  std::visit(
      [&](auto& message) {
        message.request = request;
        worker_.send(message);
      },
      question.message);
  questions_.emplace(request, std::move(question));
}

void WorkerRequests::ask_again() {
  for (auto& [request, question] : questions_) {
    std::visit([this](const auto& message) { worker_.send(message); }, question.message);
  }
}

std::optional<JobPart> WorkerRequests::take_addition(uint64_t request) {
  auto found = additions_.extract(request);
  if (found.empty()) return std::nullopt;
  return found.mapped();
}

std::optional<WorkerRequests::Question> WorkerRequests::take_question(uint64_t request) {
  auto found = questions_.extract(request);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

std::vector<WorkerRequests::Question> WorkerRequests::take_questions(JobId job) {
  std::vector<Question> taken;
  for (auto it = questions_.begin(); it != questions_.end();) {
    if (it->second.job != job) {
      ++it;
      continue;
    }
    taken.push_back(std::move(it->second));
    it = questions_.erase(it);
  }
  return taken;
}

void WorkerRequests::forget_additions(JobId job) {
  std::erase_if(additions_, [job](const auto& one) { return one.second.job == job; });
}

}  // namespace laneway::service
