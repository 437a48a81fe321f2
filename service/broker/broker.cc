#include "service/broker/broker.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "base/fault_point.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/log_file.h"
#include "base/version.h"
#include "policies/registry.h"
#include "service/broker/user_names.h"
#include "service/supervisor/policy_file.h"

namespace laneway::service {
namespace {

namespace to_broker = wire::supervisor_to_broker;

// The supervisor gives up a broker that is silent fifteen times as long.
constexpr Duration kHeartbeatEvery = seconds(2);
// A worker that is not reached dies, or this broker's channel to it is broken: then a new broker
// gets a new one.
constexpr Duration kPatienceWithWorker = seconds(10);

}  // namespace

Broker::Broker(Channel supervisor, const Clock& clock)
    : clock_(clock),
      supervisor_(std::move(supervisor)),
      registry_(supervisor_, worker_, replies_, quotas_, clock),
      requests_(
          registry_, replies_,
          {.status = [this](bool with_ended) { return status(with_ended); },
           .set_policy = [this](const std::string& policy) { return set_policy(policy); },
           .set_pool = [this](Bytes wanted) { return set_pool(wanted); },
           .begin_record = [this](SessionId session,
                                  const std::string& file) { return begin_record(session, file); },
           .end_record = [this] { return end_record(); },
           .session_ended =
               [this](SessionId session) {
                 if (recording_ && recording_->session == session) (void)end_record();
               },
           .shut_down =
               [this] { supervisor_.notify(wire::broker_to_supervisor::ShutdownRequested{}); }}),
      policy_(
          supervisor_,
          [this](JobId id) {
            const auto& jobs = registry_.table().all();
            const auto job = jobs.find(id);
            return job != jobs.end() ? user_name(job->second.record.user) : std::string();
          },
          clock),
      counters_(supervisor_) {
  next_heartbeat_ = clock.now();
}

Broker::~Broker() = default;

bool Broker::step(Duration most) {
  if (ended_) return false;
  wait(most);
  read_supervisor();
  if (ended_) return false;
  registry_.read_worker();
  registry_.standbys().serve();
  if (serving_) gateway_->handle_ready();
  tend();
  return !ended_;
}

void Broker::wait(Duration most) {
  const TimePoint now = clock_.now();
  TimePoint until = std::min(now + most, next_heartbeat_);
  std::vector<pollfd> entries{supervisor_.poll_entry()};
  if (const auto worker = worker_.poll_entry()) entries.push_back(*worker);
  registry_.standbys().add_to_poll(entries);
  policy_.add_to_poll(entries);
  if (core_ != nullptr)
    until = std::min({until, core_->next_wakeup(), registry_.next_wakeup(), policy_.next_wakeup()});
  if (trace_ != nullptr) until = std::min(until, trace_->next_flush());
  if (serving_) {
    gateway_->add_to_poll(entries);
    until = std::min(until, gateway_->next_wakeup());
  }
  // Rounded up: to wake too early would only mean to wait again.
  const int64_t left_ns = std::max<int64_t>((until - now).ns(), 0);
  const int64_t ms = (left_ns + 999'999) / 1'000'000;
  ::poll(entries.data(), entries.size(), static_cast<int>(std::min<int64_t>(ms, 60'000)));
}

void Broker::tend() {
  supervisor_.flush();
  worker_.flush();
  if (core_ != nullptr) {
    core_->fire_due();
    policy_.serve();
    registry_.answer_waiters();
  }
  if (trace_ != nullptr) trace_->flush_if_due();
  const TimePoint now = clock_.now();
  if (now >= next_heartbeat_) {
    supervisor_.notify(wire::broker_to_supervisor::Heartbeat{});
    if (serving_) counters_.hold(core_->counters(), lost_records());
    next_heartbeat_ = now + kHeartbeatEvery;
  }
  if (!active_up_ || worker_.up()) {
    worker_unreached_.reset();
  } else if (!worker_unreached_) {
    worker_unreached_ = now;
    registry_.worker_gone();
  } else if (now - *worker_unreached_ > kPatienceWithWorker) {
    return end(Error{ErrorCode::unavailable, "the worker lives and is not reached"});
  }
  if (supervisor_.lost()) return end(Error{ErrorCode::unavailable, "the supervisor is gone"});
  if (stopping_ && registry_.empty()) finish_stop();
}

void Broker::read_supervisor() {
  while (!ended_) {
    auto received = supervisor_.receive();
    if (!received) return end(received.error());
    if (!received.value()) return;
    auto& [message, fds] = *received.value();
    Status done = std::visit(
        [&fds = fds, this](const auto& one) { return on(one, std::move(fds)); }, message);
    if (!done) return end(done);
  }
}

void Broker::end(Status result) {
  ended_ = true;
  result_ = std::move(result);
}

Status Broker::on(const to_broker::Start& message, std::vector<Descriptor> fds) {
  if (core_ != nullptr || fds.size() < 2) {
    return Error{ErrorCode::invalid_argument, "a broker is started once, with its two listeners"};
  }
  config_ = message.config;
  configure_log();
  supervisor_pid_ = message.supervisor_pid;
  started_unix_ns_ = message.started_unix_ns;
  lanes::SchedulerConfig core;
  core.capacity = Bytes(static_cast<int64_t>(config_.pool_bytes));
  core.wanted_capacity = Bytes(static_cast<int64_t>(message.wanted_pool_bytes));
  core.reserve = Bytes(static_cast<int64_t>(config_.reserve_bytes));
  core.store = Bytes(static_cast<int64_t>(config_.store_bytes));
  core.spill = Bytes(static_cast<int64_t>(config_.spill_bytes));
  core.alignment = config_.alignment;
  core.set_lanes(config_.lanes, std::thread::hardware_concurrency());
  epoch_ = message.epoch;
  counters_.set_epoch(epoch_);
  open_trace();
  auto made = BrokerCore::make(core, config_.policy, clock_, registry_, trace_.get());
  if (!made) return made.error();
  core_ = std::move(made).value();
  registry_.set_core(*core_);
  policy_.set_core(*core_);
  policy_.policy_set(config_.policy);
  core_->set_told(policy_);
  if (Status seen = see_journal(fds); !seen) return seen;
  const Gateway::Facts facts{.server_version = version(),
                             .device = config_.device,
                             .pool_bytes = config_.pool_bytes,
                             .max_in_flight = limits::kMaxInFlight,
                             .kernels = config_.kernels};
  auto gateway = Gateway::open(std::move(fds[0]), config_.address, std::move(fds[1]), supervisor_,
                               quotas_, requests_, facts);
  if (!gateway) return gateway.error();
  gateway_ = std::move(gateway).value();
  replies_.set_way(
      [this](const ReplyTo& to, const wire::AnyReply& reply, std::vector<Descriptor> reply_fds) {
        gateway_->reply(to.session, to.number, reply, std::move(reply_fds));
      });
  return {};
}

Status Broker::see_journal(const std::vector<Descriptor>& fds) {
  if (fds.size() < 3) return {};
  auto journal = JournalView::map(fds[2].get());
  if (!journal) return journal.error();
  journal_ = std::move(journal).value();
  registry_.set_journal(*journal_);
  return {};
}

void Broker::configure_log() const {
  if (const auto level = parse_log_level(config_.log_level)) set_log_level(level.value());
  if (config_.log_file.empty()) return;
  if (Status opened = set_log_file(config_.log_file); !opened) log_error(opened.error().message);
}

Status Broker::on(const to_broker::Held& message, std::vector<Descriptor> fds) {
  if (core_ == nullptr || serving_) {
    return Error{ErrorCode::invalid_argument, "what is held comes between start and its end"};
  }
  if (message.key == BrokerCounters::kKey) {
    const auto before = counters_.restore(std::as_bytes(std::span(message.note)));
    before ? core_->go_on_from(before.value()) : log_error(before.error().message);
    return {};
  }
  const bool sessions = message.key.rfind("s/", 0) == 0 || message.key.rfind("p/", 0) == 0;
  if (sessions) {
    const auto* data = reinterpret_cast<const std::byte*>(message.note.data());
    const std::vector<std::byte> note(data, data + message.note.size());
    gateway_->restore(message.key, note, std::move(fds));
    return {};
  }
  // What makes no sense is a loss of one job, not of the service.
  if (Status restored = registry_.restore(message.key, message.note, std::move(fds)); !restored) {
    log_error(restored.error().message);
    supervisor_.release(message.key);
  }
  return {};
}

Status Broker::on(const to_broker::HeldEnd& /*message*/, const std::vector<Descriptor>& /*fds*/) {
  if (core_ == nullptr) return Error{ErrorCode::invalid_argument, "nothing was started"};
  std::set<SessionId> sessions;
  for (const Session& session : gateway_->sessions()) {
    requests_.on_session(session);
    sessions.insert(session.id);
  }
  supervisor_.fed();
  registry_.restored(sessions);
  serving_ = true;
  return {};
}

Status Broker::on(const to_broker::WorkerUp& message, std::vector<Descriptor> fds) {
  workers_[message.pid] = message;
  if (fds.empty()) return {};
  if (core_ == nullptr) return Error{ErrorCode::invalid_argument, "nothing was started"};
  if (message.role != wire::WorkerRole::active) {
    registry_.standbys().connect(message.pid, Channel(std::move(fds[0])));
    return {};
  }
  registry_.standbys().activated(message.pid);
  log_info("worker " + std::to_string(message.pid) + " is active");
  active_up_ = true;
  registry_.worker_connected(Channel(std::move(fds[0])), message.torch);
  return {};
}

Status Broker::on(const to_broker::WorkerDown& message, const std::vector<Descriptor>& /*fds*/) {
  const auto found = workers_.find(message.pid);
  if (found == workers_.end()) return {};
  registry_.standbys().died(message.pid, message.status);
  const bool active = found->second.role == wire::WorkerRole::active;
  if (!stopping_) counters_.worker_died(found->second.role);
  workers_.erase(found);
  if (!active || core_ == nullptr) return {};
  log_warning("the active worker " + std::to_string(message.pid) + " died");
  active_up_ = false;
  registry_.worker_gone();
  return {};
}

Status Broker::on(const to_broker::Stop& message, const std::vector<Descriptor>& /*fds*/) {
  if (stopping_) return {};
  stopping_ = true;
  const Error reason{ErrorCode::unavailable, message.failure.empty()
                                                 ? "the service was shut down"
                                                 : "the service cannot go on and ends: " +
                                                       message.failure + "; its log has more"};
  requests_.refuse_all(reason);
  if (core_ != nullptr) registry_.close_all(reason);
  return {};
}

Status Broker::on(const to_broker::PolicyNews& message, std::vector<Descriptor> fds) {
  if (core_ == nullptr) return Error{ErrorCode::invalid_argument, "nothing was started"};
  // News of a process that is there follow upon a start, all others upon an end.
  if (fds.empty() && policy_.facts() && policy_.facts()->pid) counters_.policy_died();
  policy_.on(message, std::move(fds));
  return {};
}

Status Broker::on(const to_broker::ReopenLog& /*message*/, const std::vector<Descriptor>& /*fds*/) {
  if (Status opened = reopen_log_file(); !opened) log_error(opened.error().message);
  return {};
}

Status Broker::on(const to_broker::HoldsDone& message, const std::vector<Descriptor>& /*fds*/) {
  registry_.parts().holds_done(message.number);
  return {};
}

Status Broker::on(const to_broker::HoldRefused& message, const std::vector<Descriptor>& /*fds*/) {
  log_warning("the supervisor refused what was to be held: " + message.why);
  const Error why{ErrorCode::refused, message.why};
  if (registry_.hold_refused(message.number, why) || gateway_ == nullptr) return {};
  gateway_->hold_refused(message.key, why);
  return {};
}

void Broker::finish_stop() {
  supervisor_.notify(wire::broker_to_supervisor::Stopped{});
  if (trace_ != nullptr) trace_->ended();  // what went wrong is in the log
  end({});
}

Status Broker::set_policy(const std::string& policy) {
  // Its client may be anywhere: only an absolute path means the same file here.
  const auto plugin = policies::plugin_of(policy);
  if (plugin && plugin->file[0] != '/') {
    return Error{ErrorCode::invalid_argument,
                 "the policy's file " + plugin->file + " has no absolute path: give one from /"};
  }
  if (const auto startable = startable_policy(policy); !startable) return startable.error();
  if (Status set = core_->set_policy(policy); !set) return set;
  policy_.policy_set(policy);
  config_.policy = policy;
  wire::broker_to_supervisor::PolicyChanged message;
  message.policy = policy;
  supervisor_.notify(message);
  return {};
}

Status Broker::set_pool(Bytes wanted) {
  if (Status set = core_->set_pool(wanted); !set) return set;
  wire::broker_to_supervisor::PoolChanged message;
  message.wanted_bytes = static_cast<uint64_t>(wanted.count());
  supervisor_.notify(message);
  return {};
}

}  // namespace laneway::service
