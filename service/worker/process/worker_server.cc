#include "service/worker/process/worker_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <variant>

#include "adaptor/device/loaded_torch.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "pipeline/host_store.h"
#include "pipeline/spill_store.h"
#include "service/supervisor/limits.h"
#include "service/transport/supervised.h"
#include "service/wire/limits.h"
#include "service/worker/common/limits.h"
#include "service/worker/images/default_pool.h"

namespace laneway::service {

namespace from_supervisor = wire::supervisor_to_worker;
using wire::worker_to_supervisor::PoolMade;

namespace {

// For the broker to take what it is told by a worker that leaves.
constexpr Duration kFarewell = seconds(1);

}  // namespace

Result<std::unique_ptr<WorkerServer>> WorkerServer::make(Channel supervisor) {
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return Error{ErrorCode::unavailable, std::string("eventfd failed: ") + std::strerror(errno)};
  }
  return std::unique_ptr<WorkerServer>(new WorkerServer(std::move(supervisor), std::move(wake)));
}

WorkerServer::WorkerServer(Channel supervisor, Descriptor wake)
    : supervisor_(std::move(supervisor)), wake_(std::move(wake)), broker_(wake_.get()) {}

Status WorkerServer::run() {
  while (true) {
    const auto wanted = [](bool write) {
      return static_cast<short>(POLLIN | (write ? POLLOUT : 0));
    };
    std::array<pollfd, 3> entries{{{supervisor_.descriptor(), wanted(supervisor_.wants_write()), 0},
                                   {wake_.get(), POLLIN, 0},
                                   {broker_.descriptor(), wanted(broker_.wants_write()), 0}}};
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) {
      return Error{ErrorCode::failed, std::string("poll failed: ") + std::strerror(errno)};
    }
    uint64_t count = 0;
    if (entries[1].revents != 0 && ::read(wake_.get(), &count, sizeof(count)) < 0) continue;
    // The broker first: what it said before it went is done before another one comes.
    broker_.flush();
    if (entries[1].revents != 0 || entries[2].revents != 0) read_broker();
    if (entries[0].revents == 0) continue;
    const Result<bool> on = read_supervisor();
    if (!on) return on.error();
    if (!on.value()) return {};
  }
}

Result<bool> WorkerServer::read_supervisor() {
  if (Status flushed = supervisor_.flush(); !flushed) return flushed.error();
  while (true) {
    auto frame = supervisor_.receive();
    if (!frame) return frame.error();
    if (!frame.value()) return true;
    auto message = wire::decode<from_supervisor::Any>(frame.value()->bytes);
    if (!message) return message.error();
    std::vector<Descriptor> fds = std::move(frame.value()->fds);
    Status done;
    if (const auto* start = std::get_if<from_supervisor::Start>(&message.value())) {
      done = on_start(*start, std::move(fds));
    } else if (const auto* make = std::get_if<from_supervisor::MakePool>(&message.value())) {
      done = on_make_pool(make->config);
    } else if (std::holds_alternative<from_supervisor::Activate>(message.value())) {
      done = activate();
    } else if (std::holds_alternative<from_supervisor::Ping>(message.value())) {
      done = supervisor_.send(wire::encode(wire::worker_to_supervisor::Pong{}));
    } else if (std::holds_alternative<from_supervisor::BrokerChannel>(message.value())) {
      if (fds.size() != 1) return Error{ErrorCode::invalid_argument, "a channel is one descriptor"};
      follow_broker(Channel(std::move(fds[0])));
    } else {
      return false;
    }
    if (!done) return done.error();
  }
}

Status WorkerServer::on_start(const from_supervisor::Start& message, std::vector<Descriptor> fds) {
  const size_t journal_at = message.config.pool_is_shared ? 1 : 0;
  const size_t wanted = journal_at + 1 + (message.config.recovery_bytes > 0 ? 1 : 0) +
                        (message.config.store_bytes > 0 ? 1 : 0) +
                        (message.config.spill_bytes > 0 ? 1 : 0);
  if (fds.size() != wanted || backend_ != nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "a worker is started once, with pool, journal and what its config names"};
  }
  if (message.journal_bytes != kJournalBytes) {
    return Error{ErrorCode::invalid_argument, "the supervisor's journal is of another version"};
  }
  config_ = message.config;
  const TorchVersions torch = adaptor::loaded_torch();
  if (Status right = check_loaded_torch(torch); !right) {
    const wire::worker_to_supervisor::Unfit unfit{.why = right.error().message};
    if (Status told = supervisor_.send(wire::encode(unfit)); !told) return told;
    return right;
  }
  // All that takes long is done before it is needed: a standby has context and libraries.
  if (Status opened = open_device(message.config); !opened) return opened;
  if (config_.pool_is_shared) {
    auto pool = backend_->attach_pool(fds[0].release(), pool_bytes());
    if (!pool) return pool.error();
    pool_ = std::move(pool).value();
  }
  auto journal = Journal::map(fds[journal_at].get());
  if (!journal) return journal.error();
  journal_ = std::move(journal).value();
  crash_notes_.emplace(*journal_);
  size_t next = journal_at + 1;
  if (config_.recovery_bytes > 0) {
    auto recovery =
        RecoveryMemory::map(fds[next++].get(), Bytes(static_cast<int64_t>(config_.recovery_bytes)));
    if (!recovery) return recovery.error();
    recovery_ = std::move(recovery).value();
  }
  auto outside = attach_outside(std::span(fds).subspan(next));
  if (!outside) return outside.error();
  outside_ = std::move(outside).value();
  if (!config_.trace_file.empty()) iterations_.emplace(broker_);
  prepared_.emplace(*backend_, *graphs_,
                    usable_of(pool_bytes(), reserve_bytes(), backend_->alignment()), pool_.get());
  return supervisor_.send(wire::encode(wire::worker_to_supervisor::Ready{.torch = torch}));
}

Result<pipeline::OutsideImages> WorkerServer::attach_outside(std::span<Descriptor> fds) const {
  pipeline::OutsideImages outside;
  if (config_.store_bytes > 0) {
    auto attached = memory::SharedMemory::attach(fds.front().release(),
                                                 Bytes(static_cast<int64_t>(config_.store_bytes)));
    if (!attached) return attached.error();
    outside.add(lanes::Tier::store,
                std::make_unique<pipeline::HostStore>(std::move(attached).value()));
  }
  if (config_.spill_bytes > 0) {
    auto attached = memory::SpillFile::attach(fds.back().release(),
                                              Bytes(static_cast<int64_t>(config_.spill_bytes)));
    if (!attached) return attached.error();
    outside.add(lanes::Tier::spill,
                std::make_unique<pipeline::SpillStore>(std::move(attached).value()));
  }
  return outside;
}

Status WorkerServer::open_device(const wire::ServiceConfig& config) {
  auto backend = adaptor::open_backend(
      config.device,
      {.lane_sms = config.lane_sms, .copy_bandwidth_per_s = config.copy_bandwidth_per_s});
  if (!backend) return backend.error();
  backend_ = std::move(backend).value();
  return {};
}

Result<PoolMade> WorkerServer::make_pool(const wire::ServiceConfig& config,
                                         std::vector<Descriptor>& fds) {
  if (Status right = check_loaded_torch(adaptor::loaded_torch()); !right) return right.error();
  if (Status opened = open_device(config); !opened) return opened.error();
  Bytes size(static_cast<int64_t>(config.pool_bytes));
  if (size == Bytes(0)) size = default_pool(*backend_);
  if (size < limits::kMinPool) {
    return Error{ErrorCode::out_of_memory,
                 "device '" + config.device + "' has " + format_bytes(backend_->free_memory()) +
                     " free, which is no pool: one has at least " + format_bytes(limits::kMinPool) +
                     "; end what else runs on it"};
  }
  auto pool = backend_->device().allocate_pool(size);
  if (!pool) return pool.error();
  pool_ = std::move(pool).value();
  PoolMade made;
  made.pool_bytes = static_cast<uint64_t>(pool_->size().count());
  made.alignment = backend_->alignment();
  made.kernels = backend_->kernels();
  made.is_shared = pool_->descriptor() >= 0;
  if (!made.is_shared) return made;
  Descriptor copy(::fcntl(pool_->descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    return Error{ErrorCode::unavailable,
                 std::string("no descriptor for the pool: ") + std::strerror(errno)};
  }
  fds.push_back(std::move(copy));
  return made;
}

Status WorkerServer::on_make_pool(const wire::ServiceConfig& config) {
  if (backend_ != nullptr) {
    return Error{ErrorCode::invalid_argument, "a worker that makes a pool does nothing else"};
  }
  std::vector<Descriptor> fds;
  const auto made = make_pool(config, fds);
  if (made) return supervisor_.send(wire::encode(made.value()), std::move(fds));
  wire::worker_to_supervisor::PoolRefused refused;
  refused.code = made.error().code;
  refused.message = made.error().message.substr(0, limits::kMaxMessageBytes / 2);
  return supervisor_.send(wire::encode(refused));
}

Status WorkerServer::activate() {
  if (journal_ == nullptr || worker_ != nullptr) {
    return Error{ErrorCode::invalid_argument, "a worker is activated once, when it is ready"};
  }
  // What it was told as a standby is over; what it prepared of it stays.
  broker_.hang_up();
  prepared_->stop();
  requests_.post([this] { end_preparing(); });
  if (pool_ == nullptr) {
    auto pool = backend_->device().allocate_pool(pool_bytes());
    if (!pool) return pool.error();
    pool_ = std::move(pool).value();
  }
  // The device may have failed for this process too while it stood by: no job is to blame for that.
  std::byte first{};
  if (Status answers = backend_->pool_access().read(&first, pool_->data(), Bytes(1)); !answers) {
    return answers;
  }
  if (recovery_ != nullptr) {
    if (Status taken = recovery_->take_over(&journal_->recovery_used()); !taken) return taken;
  }
  worker_.reset(new Worker(*backend_, pool_->data(), pool_bytes(), *this, clock_, journal_.get(),
                           recovery_.get()));
  worker_->set_graphs(graphs_);
  worker_->set_reserve(reserve_bytes());
  if (!config_.pool_is_shared) worker_->own_pool();
  worker_->set_outside(std::move(outside_));
  const auto wanted = parse_recovery(config_.recovery);
  if (!wanted) return wanted.error();
  if (wanted.value()) worker_->want_recovery(*wanted.value());
  const auto rule = pipeline::parse_prefix_rule(config_.prefix.empty() ? "auto" : config_.prefix);
  if (!rule) return rule.error();
  worker_->set_prefix_rule(rule.value());
  if (iterations_) worker_->set_iteration_observer(&*iterations_);
  jobs_.emplace(*worker_, *backend_, *journal_, *prepared_,
                GraphRoom::Limits{.threads = config_.max_threads,
                                  .resolved = Bytes(static_cast<int64_t>(config_.graph_bytes))});
  fault_point("worker.activated");
  if (Status told = supervisor_.send(wire::encode(wire::worker_to_supervisor::Activated{}));
      !told) {
    return told;
  }
  return {};
}

void WorkerServer::report(uint64_t epoch) {
  broker_.begin_report(epoch);
  actions_.wait_idle();
  if (!recovered_) worker_->recover();
  recovered_ = true;
  fault_point("worker.recovered");
  broker_.report(epoch, worker_->report());
  prepared_->clear();  // of jobs that are over
}

void WorkerServer::end_preparing() {
  if (prepared_->wait_stopped(limits::kPreparingPatience)) return;
  log_error("the worker leaves: what it prepared as a standby does not end");
  std::fflush(nullptr);
  std::_Exit(kExitPreparingHangs);
}

void WorkerServer::post(lanes::Event event) {
  if (iterations_ && std::holds_alternative<lanes::TurnEnded>(event)) iterations_->send();
  broker_.post(std::move(event));
}

void WorkerServer::device_lost(const std::vector<std::pair<JobId, Error>>& why) {
  for (const auto& [job, error] : why) job_gone(job, error);
  broker_.flush_within(kFarewell);
  log_error("the worker leaves: its device is of no further use to this process");
  std::fflush(nullptr);
  std::_Exit(kExitDeviceLost);
}

void WorkerServer::job_gone(JobId job, const std::optional<Error>& why) {
  wire::from_worker::JobGone gone;
  gone.job = job.value();
  gone.failed = why.has_value();
  if (why) {
    gone.code = why->code;
    gone.message = why->message.substr(0, limits::kMaxMessageBytes / 2);
  }
  broker_.send_now(gone);
}

}  // namespace laneway::service
