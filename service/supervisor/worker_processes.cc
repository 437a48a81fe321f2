#include "service/supervisor/worker_processes.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/start_program.h"
#include "service/supervisor/child_environment.h"
#include "service/supervisor/duplicates.h"
#include "service/transport/supervised.h"
#include "service/wire/codec.h"

namespace laneway::service {

namespace to_broker = wire::supervisor_to_broker;
namespace to_worker = wire::supervisor_to_worker;
namespace from_worker = wire::worker_to_supervisor;

namespace {

constexpr const char* kNeverLoaded =
    "workers die again and again: their program cannot be loaded: it is gone, or the log has the "
    "loader's message; was torch or Laneway replaced or removed while lanewayd ran?";

std::string name_of(pid_t pid) { return "worker " + std::to_string(pid); }

std::string torch_name(const TorchVersions& torch) {
  return torch.built.empty() ? std::string("no torch") : "torch " + torch.built;
}

std::string other_torch(const TorchVersions& there, const TorchVersions& service) {
  return "it was built for " + torch_name(there) + ", and the service began with " +
         torch_name(service) +
         ": jobs do not go on with another minor version; install that one again, or start "
         "lanewayd anew";
}

}  // namespace

Status WorkerProcesses::tend(TimePoint now) {
  for (Worker& worker : workers_) {
    if (!worker.killed && worker.kill_at <= now) {
      kill(worker, !worker.channel.valid() ? "it hung up and did not end"
                   : worker.active         ? "it did not take over"
                                           : "it did not get ready");
    }
  }
  if (look_at_ <= now) look(now);
  if (active() == nullptr) {
    const auto ready = std::find_if(workers_.begin(), workers_.end(), [](const Worker& worker) {
      return worker.state == wire::WorkerState::ready && !worker.killed &&
             !worker.process.is_stopped();
    });
    if (ready != workers_.end()) activate(*ready, now);
  }
  if (broker_.informed() && introduced_epoch_ != broker_.epoch()) introduce_all();
  connect_standbys();
  while (!stopping_ && due() <= now) {
    Status status = start(now);
    if (status) continue;
    if (active() == nullptr) return status;
    delay_standby(now + setup_.times.restart.longest_delay, now, status.error().message);
  }
  return {};
}

LaneWatch::Times WorkerProcesses::lane_times(const SupervisorSetup& setup) {
  LaneWatch::Times times = setup.times.lanes;
  times.other += longest_copy(Bytes(static_cast<int64_t>(setup.config.pool_bytes)),
                              setup.config.copy_bandwidth_per_s);
  return times;
}

void WorkerProcesses::was_late(Duration by) {
  for (Worker& worker : workers_) {
    if (worker.kill_at != TimePoint::never()) worker.kill_at = worker.kill_at + by;
    if (worker.pinged) worker.pinged = *worker.pinged + by;
    worker.stopped_since.reset();
  }
}

void WorkerProcesses::delay_standby(TimePoint until, TimePoint now, const std::string& why) {
  standby_at_ = until;
  if (until <= now) return;
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", (until - now).seconds());
  log_warning("no other standby is started for " + std::string(text) + ": " + why);
}

void WorkerProcesses::ping(Worker& worker, TimePoint now) {
  // One that is busy with its start or its activation has a bound for that.
  const bool waits = worker.state == wire::WorkerState::ready && !worker.killed &&
                     worker.channel.valid() && worker.kill_at == TimePoint::never();
  if (!waits) {
    worker.pinged.reset();
  } else if (worker.pinged && now - *worker.pinged > setup_.times.heartbeat) {
    kill(worker, "it does not answer");
  } else if (!worker.pinged) {
    worker.pinged = now;
    notify(worker, to_worker::Ping{});
  }
}

void WorkerProcesses::look(TimePoint now) {
  look_at_ = now + setup_.times.lanes.look;
  pressure_.look(now);
  for (Worker& worker : workers_) {
    ping(worker, now);
    if (worker.killed || !worker.process.is_stopped()) {
      worker.stopped_since.reset();
    } else if (!worker.stopped_since) {
      worker.stopped_since = now;
    } else if (now - *worker.stopped_since > setup_.times.stopped) {
      kill(worker, "it was stopped for too long");
    }
  }
  Worker* const serving = active();
  if (serving == nullptr || serving->killed) return;
  if (const auto hang = watch_.look(now)) kill(*serving, text_of(*hang));
}

TimePoint WorkerProcesses::due() const {
  const bool serving = std::any_of(workers_.begin(), workers_.end(),
                                   [](const Worker& worker) { return worker.active; });
  if (workers_.size() >= 1 + (serving ? setup_.standby : 0)) return TimePoint::never();
  return serving ? standby_at_ : start_at_;
}

TimePoint WorkerProcesses::next_wakeup() const {
  TimePoint next = stopping_ ? TimePoint::never() : due();
  for (const Worker& worker : workers_) {
    if (!worker.killed) next = std::min({next, worker.kill_at, look_at_});
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
  fds.push_back(std::move(journal).value());
  std::vector<int> more;
  if (setup_.recovery) more.push_back(setup_.recovery->descriptor());
  if (setup_.store) more.push_back(setup_.store->descriptor());
  if (setup_.spill) more.push_back(setup_.spill->descriptor());
  for (const int descriptor : more) {
    auto copy = duplicate_of(descriptor);
    if (!copy) return copy.error();
    fds.push_back(std::move(copy).value());
  }
  auto process = ChildProcess::spawn(setup_.worker, child_environment(started_),
                                     std::move(ends.value().second).release());
  if (!process) return process.error();
  ++started_;
  workers_.push_back(Worker{.process = std::move(process).value(),
                            .channel = std::move(ends.value().first),
                            .kill_at = now + setup_.times.worker_start});
  Worker& worker = workers_.back();
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

bool WorkerProcesses::has_ready() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.state == wire::WorkerState::ready && !worker.killed;
  });
}

void WorkerProcesses::activate(Worker& worker, TimePoint now) {
  worker.active = true;
  if (!torch_) torch_ = worker.torch;
  if (standby_at_ == TimePoint::never()) standby_at_ = now;
  const SupervisorTimes& times = setup_.times;
  worker.kill_at = now + (setup_.config.pool_is_shared ? times.activation : times.worker_start);
  watch_.begin_worker();
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

void WorkerProcesses::connect_standbys() {
  // One for nobody is active in a moment.
  const bool wanted = setup_.standbys_prepare && active() != nullptr;
  if (!wanted || introduced_epoch_ != broker_.epoch()) return;
  for (Worker& worker : workers_) {
    const bool ready = worker.state == wire::WorkerState::ready && !worker.killed;
    if (ready && !worker.active && worker.connected_to != introduced_epoch_) connect(worker);
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
  worker.connected_to = broker_.epoch();
  if (worker.active) connected_epoch_ = broker_.epoch();
}

void WorkerProcesses::announce(const Worker& worker, std::vector<Descriptor> fds) {
  if (introduced_epoch_ != broker_.epoch()) return;  // it is notified of all at once
  broker_.notify(to_broker::WorkerUp{.pid = worker.process.pid(),
                                     .role = worker.active ? wire::WorkerRole::active
                                                           : wire::WorkerRole::standby,
                                     .state = worker.state,
                                     .epoch = worker.active ? active_epoch_ : 0,
                                     .torch = worker.torch},
                 std::move(fds));
}

template <class M>
// NOLINTNEXTLINE(performance-unnecessary-value-param): clang-tidy 14 sees no move in a template
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
    worker.pinged.reset();
    if (std::holds_alternative<from_worker::Pong>(message.value())) continue;
    if (std::holds_alternative<from_worker::Activated>(message.value())) {
      worker.kill_at = TimePoint::never();
      continue;
    }
    if (const auto* unfit = std::get_if<from_worker::Unfit>(&message.value())) {
      return refuse(worker, unfit->why);
    }
    const auto* ready = std::get_if<from_worker::Ready>(&message.value());
    if (ready == nullptr) return kill(worker, "it made a pool that nobody asked for");
    on_ready(worker, ready->torch);
  }
}

void WorkerProcesses::on_ready(Worker& worker, const TorchVersions& torch) {
  if (torch_ && !same_torch_minor(torch.built, torch_->built)) {
    return refuse(worker, other_torch(torch, *torch_));
  }
  worker.torch = torch;
  unready_deaths_ = 0;
  worker.state = wire::WorkerState::ready;
  worker.kill_at = TimePoint::never();
  announce(worker);
}

void WorkerProcesses::refuse(Worker& worker, const std::string& why) {
  worker.unfit = why;
  kill(worker, why);
}

void WorkerProcesses::give_up(const std::string& why) {
  start_at_ = TimePoint::never();
  why_given_up_ = why;
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
    const bool standby = !worker->active && active() != nullptr;
    const std::string unfit = worker->unfit;
    const bool was_ready = worker->state == wire::WorkerState::ready;
    if (worker->active) {
      connected_epoch_ = 0;
      if (!worker->killed) note_lack_of_memory(end->status, now);
    }
    workers_.erase(worker++);
    if (!stopping_) {
      const bool device_lost =
          WIFEXITED(end->status) && WEXITSTATUS(end->status) == kExitDeviceLost;
      log_warning(name_of(pid) + " ended: " + end->text() +
                  (device_lost ? ", because its device failed" : ""));
      if (standby && !unfit.empty()) {
        standby_at_ = TimePoint::never();  // until another worker is active
        log_error("the service goes on without a standby: " + unfit);
      } else if (standby) {
        // Never the end of a service that works; as late as there is a delay for.
        const TimePoint latest = now + setup_.times.restart.longest_delay;
        delay_standby(std::min(standby_rule_.died(now), latest), now, "standbys die");
      } else {
        start_at_ = rule_.died(now, setup_.requests_ended());
        // However long each of them took.
        const bool cannot_start = !was_ready && ++unready_deaths_ >= setup_.times.restart.deaths;
        const bool not_loaded =
            WIFEXITED(end->status) && WEXITSTATUS(end->status) == kExitNotLoaded;
        if (!unfit.empty() && !has_ready()) {
          give_up("no worker can serve it: " + unfit);
        } else if (cannot_start || given_up()) {
          give_up(not_loaded ? kNeverLoaded : "workers die again and again");
        }
      }
    }
    if (introduced_epoch_ == broker_.epoch()) {
      broker_.notify(to_broker::WorkerDown{.pid = pid, .status = end->status});
    }
  }
}

void WorkerProcesses::note_lack_of_memory(int status, TimePoint now) {
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return;
  pressure_.look(now);
  if (!pressure_.killed_lately(now)) return;
  log_warning(
      "the kernel killed a process because the machine's memory ran out, probably the "
      "worker that ended now; free memory, or give the service a smaller --pool");
  setup_.journal_memory().header.out_of_memory.store(1, std::memory_order_release);
}

void WorkerProcesses::stop() {
  stopping_ = true;
  for (Worker& worker : workers_) notify(worker, to_worker::Stop{});
}

void WorkerProcesses::kill_all() {
  for (Worker& worker : workers_) kill(worker, "it did not leave in time");
}

}  // namespace laneway::service
