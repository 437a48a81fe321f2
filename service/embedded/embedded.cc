#include "service/embedded/embedded.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "adaptor/device/device_job.h"
#include "adaptor/device/loaded_torch.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/version.h"
#include "memory/os/owned_descriptor.h"
#include "pipeline/host_store.h"
#include "pipeline/spill_store.h"
#include "policies/registry.h"
#include "service/status/shown_facts.h"
#include "service/status/status.h"
#include "service/supervisor/policy_file.h"
#include "service/wire/job_ref.h"
#include "service/worker/images/default_pool.h"
#include "service/worker/jobs/job_json.h"

namespace laneway::service {
namespace {

constexpr SessionId kSession{1};  // the process itself
// How long who makes a job waits for the core to have looked at it.
constexpr Duration kAnswer = seconds(1);

// getpwuid answers in memory that all threads share.
std::string user_name() {
  const uid_t user = ::geteuid();
  std::vector<char> text(1024);
  passwd entry{};
  passwd* found = nullptr;
  while (::getpwuid_r(user, &entry, text.data(), text.size(), &found) == ERANGE) {
    text.resize(2 * text.size());
  }
  return found != nullptr ? found->pw_name : std::to_string(user);
}

Result<pipeline::OutsideImages> make_outside(const EmbeddedOptions& options) {
  pipeline::OutsideImages outside;
  if (options.store.value_or(Bytes()) > Bytes()) {
    auto made = memory::SharedMemory::create("laneway-store", *options.store);
    if (!made) return made.error();
    if (Status kept = made.value().keep_from_children(); !kept) return kept.error();
    outside.add(lanes::Tier::store, std::make_unique<pipeline::HostStore>(std::move(made).value()));
  }
  if (options.spill > Bytes()) {
    auto made = memory::SpillFile::create(options.spill_folder, options.spill);
    if (!made) return made.error();
    outside.add(lanes::Tier::spill,
                std::make_unique<pipeline::SpillStore>(std::move(made).value()));
  }
  return outside;
}

Error closed_error() {
  return Error{ErrorCode::unavailable, "the service was closed; open another one"};
}

Result<pipeline::InitialImage> initial_image(const JobRequest& request) {
  pipeline::InitialImage initial(request.slots, request.initial);
  if (request.weights.files.empty()) return initial;
  std::vector<memory::OwnedDescriptor> own;  // the caller may close its
  for (const int descriptor : request.file_descriptors) {
    own.emplace_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  }
  auto files = pipeline::WeightFileReader::make(request.slots, request.weights, std::move(own));
  if (!files) return files.error();
  initial.set_files(std::move(files).value());
  return initial;
}

wire::JobFacts facts_of(const WorkerJob& job) {
  wire::JobFacts facts{
      .job = job.id, .user = user_name(), .client_torch = adaptor::loaded_torch().running};
  add_shown(job.shown(), facts);
  return facts;
}

}  // namespace

Result<std::unique_ptr<EmbeddedService>> EmbeddedService::open(const EmbeddedOptions& options) {
  // First, before the service is registered to be closed at exit.
  auto backend = adaptor::open_backend(options.device, {.lane_sms = options.lane_sms});
  if (!backend) return backend.error();
  if (options.lanes > limits::kMaxLanes) {
    return Error{ErrorCode::invalid_argument, "lanes = " + std::to_string(options.lanes) +
                                                  " is above the limit of " +
                                                  std::to_string(limits::kMaxLanes)};
  }
  auto policy_text = startable_policy(options.policy);
  if (!policy_text) return policy_text.error();
  auto policy = policies::make_policy(policy_text.value());
  if (!policy) return policy.error();
  EmbeddedOptions wanted = options;
  wanted.policy = std::move(policy_text).value();
  if (wanted.pool.count() == 0) wanted.pool = default_pool(*backend.value());
  const int64_t alignment = backend.value()->alignment();
  wanted.pool = Bytes(wanted.pool.count() / alignment * alignment);
  if (wanted.pool.count() <= 0) {
    return Error{ErrorCode::invalid_argument,
                 "a pool of " + format_bytes(options.pool) + " is too small: give at least 1 MiB"};
  }
  auto pool = backend.value()->device().allocate_pool(wanted.pool);
  if (!pool) return pool.error();
  wanted.store = wanted.store.value_or(pool.value()->size());
  auto outside = make_outside(wanted);
  if (!outside) return outside.error();
  std::unique_ptr<EmbeddedService> service(
      new EmbeddedService(wanted, std::move(backend).value(), std::move(pool).value(),
                          std::move(outside).value(), std::move(policy).value()));
  if (Status set = service->policy_->set(wanted.policy); !set) return set.error();
  return service;
}

EmbeddedService::EmbeddedService(const EmbeddedOptions& options,
                                 std::unique_ptr<adaptor::Backend> backend,
                                 std::unique_ptr<memory::MemoryBlock> pool,
                                 pipeline::OutsideImages outside,
                                 std::unique_ptr<policies::Policy> policy)
    : device_name_(options.device),
      kernels_(backend->kernels()),
      pool_size_(options.pool),
      backend_(std::move(backend)),
      pool_(std::move(pool)),
      worker_(new Worker(*backend_, pool_->data(), options.pool, *this, clock_)) {
  worker_->share_process();
  worker_->set_outside(std::move(outside));
  worker_->set_prefix_rule(options.prefix);
  lanes::SchedulerConfig config;
  config.capacity = options.pool;
  config.store = options.store.value_or(Bytes());
  config.spill = options.spill;
  config.alignment = backend_->alignment();
  config.set_lanes(options.lanes, std::thread::hardware_concurrency());
  policy_ = std::make_unique<EmbeddedPolicy>(*worker_, user_name(), clock_);
  loop_ = std::make_unique<lanes::CoreLoop>(
      std::make_unique<lanes::Scheduler>(config, std::move(policy)), clock_, *policy_);
  policy_->set_core(*loop_);
}

EmbeddedService::~EmbeddedService() { close(); }

void EmbeddedService::close() {
  MutexLock lock(close_mutex_);
  if (closed_.exchange(true)) return;
  policy_->stop();
  worker_->close_all();
  free_pool();
}

void EmbeddedService::free_pool() {
  if (backend_->escaped_within(pool_->data(), pool_size_) == 0) {
    pool_.reset();
    return;
  }
  log_warning("an operator still uses memory of a closed service: its pool of " +
              format_bytes(pool_size_) + " stays mapped");
  // NOLINTBEGIN(bugprone-unused-return-value): given up on purpose
  pool_.release();
  backend_.release();
  // NOLINTEND(bugprone-unused-return-value)
}

Result<JobHandle> EmbeddedService::create_job(const JobRequest& request,
                                              std::span<const std::byte> graph) {
  if (closed_) return closed_error();
  if (Status alive = worker_->device_status(); !alive) return alive.error();
  auto torch = worker_->graphs().make_job(*backend_, request.slots, graph, pool_size_);
  if (!torch) return torch.error();
  adaptor::DeviceJob& made = *torch.value().made.job;
  if (!request.random_state.empty()) {
    if (Status set = made.set_random_state(request.random_state); !set) return set.error();
  }
  const JobId id(last_job_.fetch_add(1) + 1);
  JobOptions options = request.options;
  if (options.name.empty()) options.name = "job-" + std::to_string(id.value());
  lanes::JobOffered offer{.job = id,
                          .session = kSession,
                          .options = std::move(options),
                          .persistent = made.layout().total(),
                          .ephemeral = Bytes(),
                          .context_key = made.context_key()};
  // One that is larger than the pool will be refused, and has no use for its bytes.
  Result<pipeline::InitialImage> initial = pipeline::InitialImage();
  if (made.layout().total() <= pool_size_) initial = initial_image(request);
  if (!initial) return initial.error();
  JobHandle job = worker_->add_job({.offer = std::move(offer),
                                    .torch = std::move(torch.value().made),
                                    .origin = std::move(torch.value().origin),
                                    .initial = std::move(initial).value()});
  if (job == nullptr) return closed_error();
  {
    MutexLock lock(jobs_mutex_);
    std::erase_if(jobs_, [](const auto& known) { return known.expired(); });
    jobs_.push_back(job);
  }
  post(job->offer);
  // Refused? Then the caller hears it now, also when another thread was at the core.
  loop_->wait_handled(kAnswer);
  if (const auto placed = worker_->wait_placed(*job, Duration()); placed && !*placed) {
    return placed->error();
  }
  return job;
}

Result<JobHandle> EmbeddedService::attach(const std::string& name) {
  if (closed_) return closed_error();
  MutexLock lock(jobs_mutex_);
  for (auto known = jobs_.rbegin(); known != jobs_.rend(); ++known) {
    JobHandle job = known->lock();
    if (job == nullptr || job->name != name || worker_->is_over(*job)) continue;
    if (job->offer.options.shared) return job;
  }
  return Error{ErrorCode::refused, "there is no job '" + name +
                                       "' of this user that others may attach to (shared=True)"};
}

Result<JobHandle> EmbeddedService::find(const std::string& job) {
  if (closed_) return closed_error();
  const wire::JobRef ref = wire::job_ref(job);
  JobHandle found;
  {
    MutexLock lock(jobs_mutex_);
    for (const auto& known : jobs_) {
      JobHandle held = known.lock();
      if (held == nullptr || worker_->is_over(*held)) continue;
      if (ref.names(held->id, held->name)) found = std::move(held);
    }
  }
  if (found == nullptr) {
    return Error{ErrorCode::invalid_argument, "there is no job named or numbered '" + job + "'"};
  }
  return found;
}

Status EmbeddedService::kill(const std::string& job) {
  Result<JobHandle> found = find(job);
  if (!found) return found.error();
  worker_->close_job(found.value());
  return {};
}

Status EmbeddedService::set_residency(const std::string& job, lanes::Residency wanted) {
  Result<JobHandle> found = find(job);
  if (!found) return found.error();
  return worker_->want_residency(*found.value(), wanted);
}

Status EmbeddedService::set(const std::string& job, const JobChanges& changes) {
  Result<JobHandle> found = find(job);
  if (!found) return found.error();
  post(lanes::JobChanged{.job = found.value()->id, .changes = changes});
  return {};
}

Status EmbeddedService::set_policy(const std::string& text) {
  if (closed_) return closed_error();
  auto startable = startable_policy(text);
  if (!startable) return startable.error();
  auto policy = policies::make_policy(startable.value());
  if (!policy) return policy.error();
  loop_->set_policy(std::move(policy).value(), startable.value());
  return policy_->set(startable.value());
}

Status EmbeddedService::set_pool(Bytes wanted) {
  if (closed_) return closed_error();
  if (Status within = lanes::may_grow_to(wanted, pool_size_); !within) return within;
  Status may =
      loop_->read([wanted](const lanes::Scheduler& core) { return core.may_resize(wanted); });
  if (!may) return may;
  post(lanes::CapacityChanged{wanted});
  return {};
}

Result<std::string> EmbeddedService::status(bool with_ended) {
  if (closed_) return closed_error();
  wire::ServiceFacts facts{.pid = ::getpid(),
                           .version = version(),
                           .device = device_name_,
                           .kernels = kernels_,
                           .user = user_name(),
                           .uptime_s = (clock_.now() - start_).seconds(),
                           .pool_made = pool_size_,
                           .policy_process = policy_->facts(),
                           .workers = {{.pid = ::getpid(),
                                        .role = "active",
                                        .state = "ready",
                                        .torch = adaptor::loaded_torch()}}};
  {
    MutexLock lock(jobs_mutex_);
    for (const auto& known : jobs_) {
      if (const JobHandle job = known.lock()) facts.jobs.push_back(facts_of(*job));
    }
  }
  std::sort(facts.jobs.begin(), facts.jobs.end(),
            [](const auto& a, const auto& b) { return a.job < b.job; });
  lanes::Snapshot core = snapshot();
  if (!with_ended) core.ended.clear();
  return status_json(facts, core);
}

lanes::Snapshot EmbeddedService::snapshot() {
  lanes::Snapshot now = loop_->read([](const lanes::Scheduler& core) { return core.snapshot(); });
  now.now = clock_.now();
  return now;
}

Result<std::string> EmbeddedService::job_report(WorkerJob& job, bool with_tapes) {
  const std::string line = job_line_json(snapshot(), job.id, facts_of(job));
  return job_json(job, worker_->plans(job), worker_->recovery(job), line, with_tapes);
}

Result<std::string> EmbeddedService::job_report(const std::string& job) {
  Result<JobHandle> found = find(job);
  if (!found) return found.error();
  return job_report(*found.value(), /*with_tapes=*/false);
}

}  // namespace laneway::service
