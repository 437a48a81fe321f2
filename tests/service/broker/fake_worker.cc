#include "tests/service/broker/fake_worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "service/wire/codec.h"

namespace laneway::service {
namespace {

wire::GraphInfo info(uint32_t graph) {
  wire::GraphInfo info;
  info.number = graph;
  info.name = "graph " + std::to_string(graph);
  info.outputs = {{wire::ValueKind::tensor, 4}};
  return info;
}

Bytes image_bytes(const FakeWorker::Job& job) {
  Bytes sum;
  for (const ImageSlot& slot : job.message.spec.slots) {
    sum += Bytes(static_cast<int64_t>(slot.bytes));
  }
  return sum;
}

constexpr Bytes kNeed = Bytes(640);
const Error kWhichJob{ErrorCode::invalid_argument, "no such job"};

}  // namespace

void FakeWorker::connect(Channel channel) {
  pump();
  channel_ = std::move(channel);
}

template <class M>
void FakeWorker::say(const M& message) {
  // Nobody there is right: then a report covers it.
  if (channel_.valid()) (void)channel_.send(wire::encode(message)).ok();
}

void FakeWorker::reply(uint64_t request, Status status) {
  wire::from_worker::Reply message;
  message.request = request;
  message.ok = status.ok();
  if (!status) {
    message.code = status.error().code;
    message.message = status.error().message;
  }
  say(message);
}

bool FakeWorker::pump() {
  bool any = false;
  while (channel_.valid()) {
    auto frame = channel_.receive();
    if (!frame) channel_ = Channel();
    if (!frame || !frame.value()) break;
    any = true;
    auto message = wire::decode<wire::to_worker::Any>(frame.value()->bytes);
    if (!message) {
      ADD_FAILURE() << message.error().message;
      break;
    }
    fds_ = std::move(frame.value()->fds);
    std::visit([this](const auto& one) { on(one); }, message.value());
  }
  return any;
}

void FakeWorker::restart() {
  pump();
  channel_ = Channel();
  jobs.clear();
}

void FakeWorker::fail(JobId job) {
  const TurnId turn = std::exchange(jobs.at(job).turn, {});
  tell(lanes::TurnEnded{.turn = turn,
                        .end = lanes::TurnEnd::failed,
                        .iterations = 0,
                        .busy = {},
                        .more_ready = false,
                        .ephemeral = {}});
}

FakeWorker::Job* FakeWorker::find(uint64_t job) {
  const auto found = jobs.find(JobId(job));
  return found == jobs.end() ? nullptr : &found->second;
}

void FakeWorker::on(const wire::to_worker::AddJob& message) {
  const JobId id(message.job);
  EXPECT_EQ(fds_.size(), message.spec.has_initial ? 2u : 1u);
  if (message.spec.options.name == "refused") {
    return reply(message.request, Error{ErrorCode::invalid_graph, "node 3 is not allowed"});
  }
  if (jobs.count(id) == 0) {
    if (const auto known = journal_.find(id); known != journal_.end()) {
      jobs[id].lane = known->second.lane;
      jobs[id].offset = known->second.offset;
      jobs[id].size = known->second.size;
      jobs[id].placed = true;
    }
    jobs[id].message = message;
    jobs[id].graphs = {0};
  }
  wire::from_worker::JobAdded answer;
  answer.request = message.request;
  answer.job = message.job;
  answer.graph = info(0);
  answer.persistent = static_cast<uint64_t>(image_bytes(jobs[id]).count());
  answer.ephemeral = static_cast<uint64_t>(kNeed.count());
  say(answer);
}

void FakeWorker::on(const wire::to_worker::AddGraph& message) {
  EXPECT_EQ(fds_.size(), 1u);
  EXPECT_TRUE(message.numbered);
  Job* job = find(message.job);
  if (job == nullptr) return reply(message.request, kWhichJob);
  if (job->message.spec.options.name == "one graph") {
    return reply(message.request, Error{ErrorCode::invalid_graph, "node 3 is not allowed"});
  }
  job->graphs.insert(message.number);
  wire::from_worker::GraphAdded answer;
  answer.request = message.request;
  answer.job = message.job;
  answer.graph = info(message.number);
  say(answer);
}

void FakeWorker::on(const wire::to_worker::DropGraph& message) {
  Job* job = find(message.job);
  if (job == nullptr || job->graphs.count(message.number) == 0) {
    return reply(message.request, Error{ErrorCode::invalid_argument, "no such graph"});
  }
  if (job->graphs.size() == 1) {
    return reply(message.request, Error{ErrorCode::refused, "it is the job's last graph"});
  }
  job->graphs.erase(message.number);
  reply(message.request);
}

void FakeWorker::on(const wire::to_worker::AddLink& message) {
  EXPECT_EQ(fds_.size(), 3u);
  Job* job = find(message.job);
  if (job == nullptr) return reply(message.request, kWhichJob);
  LinkFiles& files = job->links[message.link].files;
  files.ring = std::move(fds_[0]);
  files.submit = std::move(fds_[1]);
  files.done_write = std::move(fds_[2]);
  reply(message.request);
}

void FakeWorker::on(const wire::to_worker::DropLink& message) {
  if (Job* job = find(message.job)) job->links.erase(message.link);
  reply(message.request);
}

void FakeWorker::on(const wire::to_worker::AddSegment& message) {
  EXPECT_EQ(fds_.size(), 1u);
  Job* job = find(message.job);
  if (job == nullptr || job->links.count(message.link) == 0) {
    return reply(message.request, kWhichJob);
  }
  if (message.bytes == 0) {
    return reply(message.request, Error{ErrorCode::invalid_argument, "a segment without bytes"});
  }
  job->links.at(message.link).segments.insert(message.segment);
  reply(message.request);
}

void FakeWorker::on(const wire::to_worker::DropSegment& message) {
  Job* job = find(message.job);
  if (job != nullptr && job->links.count(message.link) > 0) {
    job->links.at(message.link).segments.erase(message.segment);
  }
  reply(message.request);
}

void FakeWorker::on(const wire::to_worker::CloseJob& message) {
  Job* job = find(message.job);
  if (job == nullptr) return;
  job->closing = true;
  if (!job->lane.valid()) gone(JobId(message.job), false);
}

void FakeWorker::on(const wire::to_worker::JobReport& message) {
  wire::from_worker::JobText answer;
  answer.request = message.request;
  answer.text = R"({"id": 1, "status": null, "graphs": []})";
  say(answer);
}

void FakeWorker::on(const wire::to_worker::ReleaseJob& message) {
  if (quarantined.erase(message.job) > 0) return reply(message.request);
  reply(message.request, Error{ErrorCode::refused, "it is not quarantined"});
}

void FakeWorker::on(const wire::to_worker::SetResidency& message) {
  wishes.emplace_back(message.job, message.wanted);
  reply(message.request);
}

void FakeWorker::on(const wire::to_worker::Actions& message) {
  for (const lanes::Action& action : message.actions) carry_out(action);
}

void FakeWorker::on(const wire::to_worker::Recovered& /*message*/) {
  ++reports;
  wire::from_worker::Report answer;
  for (const auto& [id, job] : jobs) {
    lanes::ReportedJob reported;
    reported.offer.job = id;
    reported.offer.options.name = "as the worker knows it";
    reported.offer.persistent = image_bytes(job);
    reported.offer.ephemeral = kNeed;
    reported.lane = job.lane;
    reported.image_offset = job.offset;
    reported.image_size = job.size;
    if (job.lane.valid()) {
      reported.image.state = job.placed ? lanes::ImageState::here : lanes::ImageState::coming;
    }
    reported.over = job.closing;
    reported.turn = job.turn;
    answer.report.jobs.push_back(reported);
  }
  for (const auto& [id, region] : regions) answer.report.regions.push_back(region);
  answer.report.last_turn = last_turn_;
  answer.report.last_region = last_region_;
  say(answer);
}

void FakeWorker::gone(JobId id, bool failed) {
  const Error why{failed ? ErrorCode::failed : ErrorCode::cancelled, "iteration 7 failed"};
  for (const auto& [number, link] : jobs.at(id).links) link.files.close_ring(why);
  jobs.erase(id);
  journal_.erase(id);
  wire::from_worker::JobGone message;
  message.job = id.value();
  message.failed = failed;
  message.code = ErrorCode::failed;
  if (failed) message.message = "iteration 7 failed";
  say(message);
}

void FakeWorker::carry_out(const lanes::Action& action) {
  if (const auto* admit = std::get_if<lanes::AdmitJob>(&action)) {
    if (jobs.count(admit->job) > 0) jobs[admit->job].lane = admit->lane;
  } else if (const auto* change = std::get_if<lanes::ChangeLane>(&action)) {
    if (jobs.count(change->job) == 0) return;
    jobs[change->job].lane = change->lane;
    if (const auto seen = journal_.find(change->job); seen != journal_.end()) {
      seen->second.lane = change->lane;
    }
  } else if (const auto* place = std::get_if<lanes::PlaceImage>(&action)) {
    Job* job = find(place->job.value());
    if (job == nullptr) return;
    job->offset = place->offset;
    job->size = place->size;
    job->placed = true;
    journal_[place->job] = {job->lane, place->offset, place->size};
    tell(lanes::ImagePlaced{place->job});
  } else if (const auto* refuse = std::get_if<lanes::RefuseJob>(&action)) {
    const Job* job = find(refuse->job.value());
    if (job != nullptr && !job->lane.valid()) gone(refuse->job, false);
  } else if (const auto* drop = std::get_if<lanes::DropImage>(&action)) {
    const Job* job = find(drop->job.value());
    if (job != nullptr) gone(drop->job, !job->closing);
  } else if (const auto* open = std::get_if<lanes::OpenRegion>(&action)) {
    regions[open->region] = {open->region, open->lane, open->offset, open->size};
    last_region_ = std::max(last_region_, open->region);
  } else if (const auto* resize = std::get_if<lanes::ResizeRegion>(&action)) {
    regions.at(resize->region).offset = resize->offset;
    regions.at(resize->region).size = resize->size;
  } else if (const auto* close = std::get_if<lanes::CloseRegion>(&action)) {
    regions.erase(close->region);
  } else if (const auto* grant = std::get_if<lanes::GrantTurn>(&action)) {
    last_turn_ = std::max(last_turn_, grant->turn.id);
    if (Job* job = find(grant->turn.job.value())) job->turn = grant->turn.id;
  } else if (const auto* recall = std::get_if<lanes::RecallTurn>(&action)) {
    for (auto& [id, job] : jobs) {
      if (job.turn == recall->turn) job.turn = {};
    }
    tell(lanes::TurnEnded{.turn = recall->turn,
                          .end = lanes::TurnEnd::idle,
                          .iterations = 1,
                          .busy = microseconds(5),
                          .more_ready = false,
                          .ephemeral = {}});
  }
}

}  // namespace laneway::service
