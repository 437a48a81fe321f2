#include "service/supervisor/worker_processes.h"

#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "service/supervisor/child_environment.h"
#include "service/supervisor/duplicates.h"
#include "service/transport/supervised.h"
#include "service/wire/codec.h"

namespace laneway::service {

namespace to_broker = wire::supervisor_to_broker;
namespace to_worker = wire::supervisor_to_worker;
namespace from_worker = wire::worker_to_supervisor;

namespace {

std::string name_of(pid_t pid) { return "worker " + std::to_string(pid); }

}  // namespace

Status WorkerProcesses::tend(TimePoint now) {
  for (Worker& worker : workers_) {
    if (!worker.killed && worker.kill_at <= now) {
      kill(worker, worker.channel.valid() ? "it did not get ready" : "it hung up and did not end");
    }
  }
  if (active() == nullptr) {
    const auto ready = std::find_if(workers_.begin(), workers_.end(), [](const Worker& worker) {
      return worker.state == wire::WorkerState::ready && !worker.killed;
    });
    if (ready != workers_.end()) activate(*ready);
  }
  if (broker_.informed() && introduced_epoch_ != broker_.epoch()) introduce_all();
  while (!stopping_ && start_at_ <= now && wants_more()) {
    if (const Status status = start(now); !status) return status;
  }
  return {};
}

bool WorkerProcesses::wants_more() const {
  const bool serving = std::any_of(workers_.begin(), workers_.end(),
                                   [](const Worker& worker) { return worker.active; });
  return workers_.size() < 1 + (serving ? setup_.standby : 0);
}

TimePoint WorkerProcesses::next_wakeup() const {
  TimePoint next = !stopping_ && wants_more() ? start_at_ : TimePoint::never();
  for (const Worker& worker : workers_) {
    if (!worker.killed) next = std::min(next, worker.kill_at);
  }
  return next;
}

Status WorkerProcesses::start(TimePoint now) {
  auto ends = Channel::pair();
  if (!ends) return ends.error();
  std::vector<Descriptor> fds;
  if (setup_.pool.valid()) {
    auto pool = setup_.pool.duplicate();
    if (!pool) return pool.error();
    fds.push_back(std::move(pool).value());
  }
  auto journal = duplicate_of(setup_.journal.descriptor());
  if (!journal) return journal.error();
  auto process =
      ChildProcess::spawn(setup_.programs + "/laneway-worker", child_environment(!started_any_),
                          std::move(ends.value().second).release());
  if (!process) return process.error();
  started_any_ = true;
  workers_.push_back(Worker{.process = std::move(process).value(),
                            .channel = std::move(ends.value().first),
                            .kill_at = now + setup_.times.worker_start});
  Worker& worker = workers_.back();
  fds.push_back(std::move(journal).value());
  notify(worker,
         to_worker::Start{.config = setup_.config,
                          .journal_bytes = static_cast<uint64_t>(setup_.journal.size().count())},
         std::move(fds));
  announce(worker);
  log_info(name_of(worker.process.pid()) + " started");
  return {};
}

WorkerProcesses::Worker* WorkerProcesses::active() {
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [](const Worker& worker) { return worker.active; });
  return found == workers_.end() ? nullptr : &*found;
}

void WorkerProcesses::activate(Worker& worker) {
  worker.active = true;
  notify(worker, to_worker::Activate{.epoch = ++active_epoch_});
  log_info(name_of(worker.process.pid()) + " is active now");
  if (introduced_epoch_ == broker_.epoch() && broker_.informed()) connect(worker);
}

void WorkerProcesses::introduce_all() {
  introduced_epoch_ = broker_.epoch();
  for (Worker& worker : workers_) {
    if (worker.active && worker.state == wire::WorkerState::ready) {
      connect(worker);
    } else {
      announce(worker);
    }
  }
}

void WorkerProcesses::connect(Worker& worker) {
  auto ends = Channel::pair();
  if (!ends) return kill(worker, "no channel to the broker: " + ends.error().message);
  std::vector<Descriptor> end;
  end.push_back(std::move(ends.value().second).release());
  notify(worker, to_worker::BrokerChannel{.epoch = broker_.epoch()}, std::move(end));
  end.clear();
  end.push_back(std::move(ends.value().first).release());
  announce(worker, std::move(end));
  connected_epoch_ = broker_.epoch();
}

void WorkerProcesses::announce(const Worker& worker, std::vector<Descriptor> fds) {
  if (introduced_epoch_ != broker_.epoch()) return;  // it is notified of all at once
  broker_.notify(to_broker::WorkerUp{.pid = worker.process.pid(),
                                     .role = worker.active ? wire::WorkerRole::active
                                                           : wire::WorkerRole::standby,
                                     .state = worker.state,
                                     .epoch = worker.active ? active_epoch_ : 0},
                 std::move(fds));
}

template <class M>
void WorkerProcesses::notify(Worker& worker, const M& message, std::vector<Descriptor> fds) {
  if (!worker.channel.valid()) return;
  const Status status = worker.channel.send(wire::encode(message), std::move(fds));
  // One that is gone is reaped soon.
  if (!status && status.error().code != ErrorCode::unavailable) {
    kill(worker, status.error().message);
  }
}

void WorkerProcesses::add_to_poll(std::vector<pollfd>& entries) const {
  for (const Worker& worker : workers_) {
    if (!worker.channel.valid()) continue;
    const int events = POLLIN | (worker.channel.wants_write() ? POLLOUT : 0);
    entries.push_back({worker.channel.descriptor(), static_cast<short>(events), 0});
  }
}

void WorkerProcesses::handle_ready(const std::vector<pollfd>& entries, TimePoint now) {
  for (Worker& worker : workers_) {
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const pollfd& one) {
      return worker.channel.valid() && one.fd == worker.channel.descriptor();
    });
    if (entry != entries.end() && entry->revents != 0) read(worker, now);
  }
}

void WorkerProcesses::read(Worker& worker, TimePoint now) {
  (void)worker.channel.flush();  // one that is gone shows when it is read
  while (worker.channel.valid()) {
    auto frame = worker.channel.receive();
    if (!frame) {
      worker.channel = Channel();
      worker.kill_at = now + setup_.times.hang_up;
      return;
    }
    if (!frame.value()) return;
    auto message = wire::decode<from_worker::Any>(frame.value()->bytes);
    if (!message) return kill(worker, "it sent what is no message: " + message.error().message);
    if (!std::holds_alternative<from_worker::Ready>(message.value())) {
      return kill(worker, "it made a pool that nobody asked for");
    }
    worker.state = wire::WorkerState::ready;
    worker.kill_at = TimePoint::never();
    announce(worker);
  }
}

void WorkerProcesses::kill(Worker& worker, const std::string& why) {
  if (!worker.killed) {
    log_warning(name_of(worker.process.pid()) + " is given up: " + why);
  }
  worker.killed = true;
  worker.channel = Channel();
  worker.process.kill();
}

void WorkerProcesses::reap(TimePoint now) {
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    const pid_t pid = worker->process.pid();
    const auto end = worker->process.reap();
    if (!end) {
      ++worker;
      continue;
    }
    if (worker->active) connected_epoch_ = 0;
    workers_.erase(worker++);
    if (!stopping_) {
      const bool device_lost =
          WIFEXITED(end->status) && WEXITSTATUS(end->status) == kExitDeviceLost;
      log_warning(name_of(pid) + " ended: " + end->text() +
                  (device_lost ? ", because its device failed" : ""));
      start_at_ = rule_.died(now);
    }
    if (introduced_epoch_ == broker_.epoch()) {
      broker_.notify(to_broker::WorkerDown{.pid = pid, .status = end->status});
    }
  }
}

void WorkerProcesses::stop() {
  stopping_ = true;
  for (Worker& worker : workers_) notify(worker, to_worker::Stop{});
}

void WorkerProcesses::kill_all() {
  for (Worker& worker : workers_) kill(worker, "it did not leave in time");
}

}  // namespace laneway::service
