#include "service/broker/worker_requests.h"

#include <utility>

namespace laneway::service {

void WorkerRequests::send_job(const JobEntry& job) {
  wire::to_worker::AddJob message;
  message.request = worker_.next_request();
  message.job = job.id().value();
  message.session = job.owner().value();
  message.user = job.record.user;
  message.record = job.record.record;
  message.spec = job.record.spec;
  additions_[message.request] = {
      .job = job.id(), .part = Addition::Part::job, .number = 0, .segment = 0};
  worker_.send(message, job.descriptors());
}

void WorkerRequests::send_graph(const JobEntry& job, uint32_t number) {
  wire::to_worker::AddGraph message;
  message.request = worker_.next_request();
  message.job = job.id().value();
  message.numbered = true;
  message.number = number;
  additions_[message.request] = {
      .job = job.id(), .part = Addition::Part::graph, .number = number, .segment = 0};
  worker_.send(message, {&job.graphs.at(number).graph});
}

void WorkerRequests::send_link(const JobEntry& job, uint32_t number) {
  wire::to_worker::AddLink message;
  message.request = worker_.next_request();
  message.job = job.id().value();
  message.link = number;
  message.owners = job.links.at(number).session == job.owner();
  additions_[message.request] = {
      .job = job.id(), .part = Addition::Part::link, .number = number, .segment = 0};
  const LinkFiles& files = job.links.at(number).files;
  worker_.send(message, {&files.ring, &files.submit, &files.done_write});
}

void WorkerRequests::send_segment(const JobEntry& job, uint32_t link, uint32_t segment) {
  const SegmentEntry& entry = job.links.at(link).segments.at(segment);
  wire::to_worker::AddSegment message;
  message.request = worker_.next_request();
  message.job = job.id().value();
  message.link = link;
  message.segment = segment;
  message.bytes = entry.bytes;
  additions_[message.request] = {
      .job = job.id(), .part = Addition::Part::segment, .number = link, .segment = segment};
  worker_.send(message, {&entry.memory});
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

std::optional<WorkerRequests::Addition> WorkerRequests::take_addition(uint64_t request) {
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
