#include "tests/service/worker_process/worker_rig.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "lanes/graph/graph_codec.h"
#include "policies/registry.h"
#include "service/journal/journal_layout.h"

extern char** environ;

namespace laneway::testing {
namespace {

using memory::SharedMemory;
using service::Descriptor;

// Only a hang meets it.
constexpr Duration kPatience = seconds(120);

SharedMemory shared(const char* name, uint64_t bytes) {
  return SharedMemory::create(name, Bytes(static_cast<int64_t>(bytes))).value();
}

Descriptor copy_of(int descriptor) { return Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

std::vector<Descriptor> list(Descriptor first) {
  std::vector<Descriptor> fds;
  fds.push_back(std::move(first));
  return fds;
}

SharedMemory encoded(const lanes::Graph& graph) {
  const std::vector<std::byte> bytes = lanes::encode_graph(graph);
  SharedMemory memory = shared("graph", bytes.size());
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  return memory;
}

// The environment of the test, with these fault points.
std::vector<std::string> environment(const std::string& faults) {
  std::vector<std::string> variables;
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view(*one).starts_with("LANEWAY_FAULT")) variables.emplace_back(*one);
  }
  if (!faults.empty()) variables.push_back("LANEWAY_FAULT=" + faults);
  return variables;
}

}  // namespace

WorkerRig::WorkerRig(Bytes pool, uint32_t lanes, Bytes reserve, Recovery recovery)
    : lanes_(lanes),
      reserve_(reserve),
      pool_(SharedMemory::create("pool", pool).value()),
      journal_(shared("journal", service::kJournalBytes)),
      wanted_(std::move(recovery)) {
  if (wanted_.memory > Bytes()) {
    recovery_.emplace(shared("recovery", static_cast<uint64_t>(wanted_.memory.count())));
  }
}

WorkerRig::~WorkerRig() {
  standby_.reset();  // kills and reaps
  process_.reset();
}

WorkerRig::Process WorkerRig::spawn(const std::string& faults) {
  auto ends = service::Channel::pair().value();
  Process worker{service::ChildProcess::spawn(LANEWAY_WORKER, environment(faults),
                                              std::move(ends.second).release())
                     .value(),
                 std::move(ends.first)};
  wire::supervisor_to_worker::Start message;
  message.config.device = "host";
  message.config.pool_bytes = static_cast<uint64_t>(pool_.size().count());
  message.config.reserve_bytes = static_cast<uint64_t>(reserve_.count());
  message.config.recovery_bytes = static_cast<uint64_t>(wanted_.memory.count());
  message.config.recovery = wanted_.wanted;
  message.config.pool_is_shared = !wanted_.own_pool;
  message.journal_bytes = service::kJournalBytes;
  std::vector<Descriptor> fds;
  if (!wanted_.own_pool) fds.push_back(copy_of(pool_.descriptor()));
  fds.push_back(copy_of(journal_.descriptor()));
  if (recovery_) fds.push_back(copy_of(recovery_->descriptor()));
  LW_CHECK(worker.supervisor.send(wire::encode(message), std::move(fds)).ok(),
           "the worker listens");
  const auto ready = worker.supervisor.receive_wait(kPatience);
  LW_CHECK(ready.ok(), ready.ok() ? "" : ready.error().message);
  return worker;
}

void WorkerRig::activate(Process worker) {
  process_.emplace(std::move(worker.process));
  supervisor_ = std::move(worker.supervisor);
  const auto activate = wire::encode(wire::supervisor_to_worker::Activate{.epoch = 1});
  LW_CHECK(supervisor_.send(activate).ok(), "the worker listens");
  connect();
}

void WorkerRig::start(const std::string& faults) { activate(spawn(faults)); }

void WorkerRig::start_standby() {
  standby_.emplace(spawn(""));
  auto ends = service::Channel::pair().value();
  const auto message = wire::encode(wire::supervisor_to_worker::BrokerChannel{.epoch = 1});
  LW_CHECK(standby_->supervisor.send(message, list(std::move(ends.second).release())).ok(),
           "the standby listens");
  size_t asked = 0;
  const auto tell_standby = [&](const auto& what, int graph) {
    std::vector<Descriptor> fds;
    if (graph >= 0) fds.push_back(copy_of(graph));
    LW_CHECK(ends.first.send(wire::encode(what), std::move(fds)).ok(), "the standby listens");
  };
  for (const ProcessJob* job : jobs_) {
    for (const auto& [number, graph] : job->graphs_) {
      ++asked;
      if (number == 0) {
        tell_standby(wire::to_standby::PrepareJob{job->message_.job, job->message_.spec.slots},
                     graph.memory.descriptor());
      } else {
        tell_standby(wire::to_standby::PrepareGraph{job->message_.job, number},
                     graph.memory.descriptor());
      }
    }
  }
  tell_standby(wire::to_standby::Settle{}, -1);
  for (; asked > 0; --asked) {
    const auto frame = ends.first.receive_wait(kPatience);
    LW_CHECK(frame.ok(), frame.ok() ? "" : frame.error().message);
    const auto done = wire::decode<wire::from_standby::Any>(frame.value().bytes).value();
    EXPECT_TRUE(std::get<wire::from_standby::Prepared>(done).ok);
  }
}

void WorkerRig::take_over() {
  LW_CHECK(standby_.has_value(), "there is a standby");
  process_.reset();
  ++deaths_;
  activate(*std::exchange(standby_, std::nullopt));
}

std::vector<std::byte> WorkerRig::shared_bytes() const {
  std::vector<std::byte> all;
  for (const SharedMemory* memory : {&pool_, &journal_, &*recovery_}) {
    all.insert(all.end(), memory->data(), memory->data() + memory->size().count());
  }
  return all;
}

void WorkerRig::replace_broker() { connect(); }

void WorkerRig::connect() {
  auto ends = service::Channel::pair().value();
  broker_ = std::move(ends.first);
  const auto message = wire::encode(wire::supervisor_to_worker::BrokerChannel{.epoch = 1});
  LW_CHECK(supervisor_.send(message, list(std::move(ends.second).release())).ok(),
           "the worker listens");
  reported_ = false;
  core_.reset();
  for (ProcessJob* job : jobs_) job->tell_job(/*again=*/true);
  tell(wire::to_worker::Recovered{});
  const int deaths = deaths_;
  until([&] { return reported_ || deaths_ != deaths || process_ == std::nullopt; }, "a report");
}

void WorkerRig::make_core() {
  lanes::SchedulerConfig config;
  config.capacity = pool_.size();
  config.reserve = reserve_;
  config.max_lanes = lanes_;
  auto policy = policies::make_policy("fifo").value();
  core_ = std::make_unique<lanes::CoreLoop>(
      std::make_unique<lanes::Scheduler>(config, std::move(policy)), clock_, *this,
      lanes::CoreLoop::Timer::cranked);
}

void WorkerRig::carry_out(const std::vector<lanes::Action>& actions) {
  wire::to_worker::Actions message;
  message.actions = actions;
  tell(message);
}

void WorkerRig::send(const std::vector<std::byte>& bytes, std::vector<Descriptor> fds) {
  // To one that died nothing is said: it shows when it is read.
  if (broker_.valid()) (void)broker_.send(bytes, std::move(fds));
}

void WorkerRig::post(lanes::Event event) {
  if (core_ != nullptr) core_->post(std::move(event));
}

lanes::Snapshot WorkerRig::snapshot() {
  return core_->read([](const lanes::Scheduler& core) { return core.snapshot(); });
}

const std::optional<Error>* WorkerRig::gone(JobId job) const {
  const auto found = gone_.find(job);
  return found == gone_.end() ? nullptr : &found->second;
}

void WorkerRig::kill() {
  if (!process_) return;
  process_.reset();
  lose_worker();
}

bool WorkerRig::alive() { return process_.has_value(); }

void WorkerRig::lose_worker() {
  process_.reset();
  broker_ = service::Channel();
  supervisor_ = service::Channel();
  core_.reset();
  answers_.clear();
  ++deaths_;
  if (follows_) start(std::exchange(next_faults_, {}));
}

void WorkerRig::turn(int wait_ms) {
  if (!broker_.valid()) return;
  pollfd entry{broker_.descriptor(), POLLIN, 0};
  (void)broker_.flush();
  if (core_ != nullptr) core_->fire_due();
  if (::poll(&entry, 1, wait_ms) <= 0) return;
  while (broker_.valid()) {
    auto frame = broker_.receive();
    if (!frame) return lose_worker();
    if (!frame.value()) return;
    take(wire::decode<wire::from_worker::Any>(frame.value()->bytes).value());
  }
}

void WorkerRig::take(wire::from_worker::Any message) {
  if (auto* report = std::get_if<wire::from_worker::Report>(&message)) {
    make_core();
    reported_ = true;
    for (lanes::ReportedJob& job : report->report.jobs) job.offer.session = SessionId(1);
    return core_->post(lanes::WorkerReported{.report = std::move(report->report)});
  }
  if (const auto* events = std::get_if<wire::from_worker::Events>(&message)) {
    EXPECT_TRUE(reported_) << "events come behind the report";
    for (const lanes::Event& event : events->events) post(event);
    return;
  }
  if (const auto* over = std::get_if<wire::from_worker::JobGone>(&message)) {
    std::optional<Error>& why = gone_[JobId(over->job)];
    if (over->failed) why = Error{over->code, over->message};
    return;
  }
  if (const auto* reply = std::get_if<wire::from_worker::Reply>(&message)) {
    // As the broker has it: a job that the worker does not take again is over.
    const auto job = told_again_.find(reply->request);
    if (job != told_again_.end() && !reply->ok) {
      gone_.try_emplace(job->second, Error{reply->code, reply->message});
    }
  }
  std::visit(
      [&](const auto& one) {
        if constexpr (requires { one.request; }) answers_[one.request] = message;
      },
      message);
}

wire::from_worker::Any WorkerRig::answer_to(const uint64_t& request) {
  until([&] { return answers_.contains(request); }, "an answer");
  return std::move(answers_.extract(request).mapped());
}

void WorkerRig::until(const std::function<bool()>& done, const char* what) {
  const TimePoint start = clock_.now();
  while (!done()) {
    LW_CHECK(clock_.now() - start < kPatience, std::string("this never came: ") + what);
    turn(1);
  }
}

ProcessJob::ProcessJob(WorkerRig& rig, Form form) : rig_(rig) {
  static uint64_t last = 0;
  message_.job = ++last;
  message_.session = 1;
  message_.user = form.user;
  message_.record = static_cast<uint32_t>(last % limits::kMaxJobs);
  message_.spec.options.name = form.name;
  message_.spec.slots = form.slots;
  if (!form.initial.empty()) {
    initial_.emplace(shared("initial", form.initial.size()));
    std::memcpy(initial_->data(), form.initial.data(), form.initial.size());
    message_.spec.has_initial = true;
  }
  graphs_.emplace(0, HeldGraph{encoded(form.graph), {}, 0});
  rig_.jobs_.push_back(this);
  tell_job(/*again=*/false);
}

ProcessJob::~ProcessJob() { std::erase(rig_.jobs_, this); }

void ProcessJob::tell_job(bool again) {
  std::vector<Descriptor> fds = list(copy_of(graphs_.at(0).memory.descriptor()));
  if (initial_) fds.push_back(copy_of(initial_->descriptor()));
  if (again) {
    message_.request = ++rig_.last_request_;
    rig_.told_again_.emplace(message_.request, id());
    rig_.send(wire::encode(message_), std::move(fds));
    for (const auto& [number, graph] : graphs_) {
      if (number != 0) tell_graph(number);
    }
    for (const auto& [number, link] : links_) {
      tell_link(number);
      for (const auto& [segment, memory] : link.segments) tell_segment(number, segment);
    }
    return;
  }
  message_.request = ++rig_.last_request_;
  rig_.send(wire::encode(message_), std::move(fds));
  const auto answer = rig_.answer_to(message_.request);
  if (const auto* reply = std::get_if<wire::from_worker::Reply>(&answer)) {
    refused_ = Error{reply->code, reply->message};
    return;
  }
  const auto& added = std::get<wire::from_worker::JobAdded>(answer);
  graphs_.at(0).info = added.graph;
  const lanes::Snapshot known = rig_.snapshot();
  if (std::any_of(known.jobs.begin(), known.jobs.end(),
                  [&](const lanes::JobStatus& job) { return job.id == id(); })) {
    return;  // by the report of a worker that followed
  }
  rig_.post(lanes::JobOffered{.job = id(),
                              .session = SessionId(1),
                              .options = message_.spec.options,
                              .iteration_estimate = Duration(),
                              .persistent = Bytes(static_cast<int64_t>(added.persistent)),
                              .ephemeral = Bytes(static_cast<int64_t>(added.ephemeral)),
                              .context_key = added.context_key});
}

void ProcessJob::tell_graph(uint32_t number) {
  wire::to_worker::AddGraph message;
  message.request = ++rig_.last_request_;
  message.job = message_.job;
  message.numbered = true;
  message.number = number;
  graphs_.at(number).request = message.request;
  rig_.send(wire::encode(message), list(copy_of(graphs_.at(number).memory.descriptor())));
}

uint32_t ProcessJob::add_graph(const lanes::Graph& graph) {
  const auto number = static_cast<uint32_t>(graphs_.size());
  HeldGraph& held = graphs_.emplace(number, HeldGraph{encoded(graph), {}, 0}).first->second;
  tell_graph(number);
  const auto answer = rig_.answer_to(held.request);
  held.info = std::get<wire::from_worker::GraphAdded>(answer).graph;
  return number;
}

void ProcessJob::tell_link(uint32_t number) {
  wire::to_worker::AddLink message;
  message.request = ++rig_.last_request_;
  message.job = message_.job;
  message.link = number;
  message.owners = number == 1;
  const HeldLink& link = links_.at(number);
  std::vector<Descriptor> fds = list(link.ring.duplicate().value());
  fds.push_back(link.wake.duplicate().value());
  fds.push_back(link.doorbell_write.duplicate().value());
  rig_.send(wire::encode(message), std::move(fds));
}

void ProcessJob::tell_segment(uint32_t link, uint32_t segment) {
  wire::to_worker::AddSegment message;
  message.request = ++rig_.last_request_;
  message.job = message_.job;
  message.link = link;
  message.segment = segment;
  const SharedMemory& memory = links_.at(link).segments.at(segment);
  links_.at(link).request = message.request;
  message.bytes = static_cast<uint64_t>(memory.size().count());
  rig_.send(wire::encode(message), list(copy_of(memory.descriptor())));
}

void ProcessJob::close(const std::string& reason) {
  wire::to_worker::CloseJob message;
  message.job = message_.job;
  message.reason = reason;
  rig_.tell(message);
  rig_.until([&] { return rig_.gone(id()) != nullptr; }, "the end of a job");
}

}  // namespace laneway::testing
