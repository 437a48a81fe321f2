#include "tests/service/enqueue_rig.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lanes/graph/graph_codec.h"
#include "policies/registry.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::testing {
namespace {

// The host's lane, but for what is under way behind it.
class EnqueueLane final : public adaptor::DeviceLane {
 public:
  EnqueueLane(Sky& sky, std::unique_ptr<adaptor::DeviceLane> host)
      : sky_(sky), host_(std::move(host)) {}

  void enter(memory::LaneArena& arena, const lanes::NumericContext& context) override {
    host_->enter(arena, context);
  }
  void leave() override { host_->leave(); }
  void suspend() override { host_->suspend(); }
  void resume(const lanes::NumericContext& context) override { host_->resume(context); }
  uint64_t address_hash() const override { return host_->address_hash(); }
  Status upload(void* to, const void* from, Bytes bytes) override {
    return host_->upload(to, from, bytes);
  }
  Status download(void* to, const void* from, Bytes bytes) override {
    return host_->download(to, from, bytes);
  }
  Status node_enqueued() override { return host_->node_enqueued(); }
  Status recording_launched() override { return host_->recording_launched(); }
  std::unique_ptr<lanes::EnqueuedIteration> enqueue() override { return sky_.enqueue(); }
  void drop_downloads() override { host_->drop_downloads(); }
  Status drain() override { return host_->drain(); }

 private:
  Sky& sky_;
  const std::unique_ptr<adaptor::DeviceLane> host_;
};

}  // namespace

class Sky::Plane final : public lanes::EnqueuedIteration {
 public:
  Plane(Sky& sky, uint64_t number) : sky_(sky), number_(number) {}
  bool done() const override {
    MutexLock lock(sky_.mutex_);
    return sky_.may_retire(number_);
  }
  Status retire() override { return sky_.retired(number_); }

 private:
  Sky& sky_;
  const uint64_t number_;
};

std::unique_ptr<lanes::EnqueuedIteration> Sky::enqueue() {
  MutexLock lock(mutex_);
  const uint64_t number = taken_off_++;
  most_ = std::max<size_t>(most_, taken_off_ - landed_);
  changed_.notify_all();
  return std::make_unique<Plane>(*this, number);
}

Status Sky::retired(uint64_t number) {
  MutexLock lock(mutex_);
  while (!may_retire(number)) changed_.wait(mutex_);
  ++landed_;
  changed_.notify_all();
  return failure_ ? Status(*failure_) : Status();
}

void Sky::retire_one() {
  MutexLock lock(mutex_);
  const uint64_t number = landed_;
  cleared_ = std::max(cleared_, number + 1);
  changed_.notify_all();
  while (landed_ <= number) changed_.wait(mutex_);
}

void Sky::open() {
  MutexLock lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Sky::fail(const Error& error) {
  MutexLock lock(mutex_);
  failure_ = error;
}

void Sky::wait_for(size_t enqueued) {
  MutexLock lock(mutex_);
  while (taken_off_ - landed_ != enqueued) changed_.wait(mutex_);
}

size_t Sky::enqueued() {
  MutexLock lock(mutex_);
  return taken_off_ - landed_;
}

size_t Sky::most() {
  MutexLock lock(mutex_);
  return most_;
}

Status Sky::health() {
  MutexLock lock(mutex_);
  const bool lost = failure_ && failure_->code == ErrorCode::device_lost;
  return lost ? Status(*failure_) : Status();
}

Result<std::unique_ptr<adaptor::DeviceLane>> EnqueueBackend::make_lane() {
  auto host = host_->make_lane();
  if (!host) return host;
  return std::unique_ptr<adaptor::DeviceLane>(
      std::make_unique<EnqueueLane>(sky_, std::move(host).value()));
}

EnqueueService::EnqueueService(uint32_t lanes, service::Journal* journal) {
  constexpr Bytes kPool = mib(16);
  pool_ = backend_.device().allocate_pool(kPool).value();
  worker_.reset(new service::Worker(backend_, pool_->data(), kPool, *this, clock_, journal));
  lanes::SchedulerConfig config;
  config.capacity = kPool;
  config.max_lanes = lanes;
  loop_ = std::make_unique<lanes::CoreLoop>(
      std::make_unique<lanes::Scheduler>(config, policies::make_policy("fifo").value()), clock_,
      *worker_);
}

EnqueueService::~EnqueueService() {
  sky_.open();
  worker_->close_all();
}

service::JobHandle EnqueueService::add_job(const std::string& name,
                                           std::optional<service::JobJournal> journal) {
  auto torch = adaptor::make_job(backend_.host(), adding_slots(kCount),
                                 lanes::encode_graph(adding_graph(kCount)), mib(16));
  LW_CHECK(torch.ok(), "the graph is one");
  const JobId id(++last_job_);
  lanes::JobOffered offer{.job = id,
                          .session = SessionId(1),
                          .options = {.name = name},
                          .iteration_estimate = Duration(),
                          .persistent = torch.value().job->layout().total(),
                          .ephemeral = Bytes(),
                          .context_key = torch.value().job->context_key()};
  if (journal) journal->open(id, torch.value().job->random_state());
  const service::JobHandle job =
      worker_->add_job({.offer = std::move(offer),
                        .torch = std::move(torch).value(),
                        .initial = pipeline::InitialImage(adding_slots(kCount)),
                        .journal = journal});
  post(job->offer);
  LW_CHECK(worker_->wait_placed(*job, Duration(-1))->ok(), "there is room for the job");
  return job;
}

std::shared_ptr<service::Work> EnqueueService::submit(const service::JobHandle& job, float value) {
  const std::vector<float> input(kCount, value);
  const lanes::InputView view{.data = input.data(), .bytes = kCount * sizeof(float)};
  auto work =
      std::make_shared<service::Work>(worker_->find_graph(*job, 0).value(), std::span(&view, 1));
  const Status queued = worker_->submit(job, work);
  LW_CHECK(queued.ok(), "the job is open");
  return work;
}

std::shared_ptr<service::Work> EnqueueService::read(const service::JobHandle& job, float* into) {
  auto work = std::make_shared<service::Work>(
      [into](const pipeline::SlotPlaces& places) { return places.read(0, into, sizeof(float)); });
  const Status queued = worker_->access_state(job, work);
  LW_CHECK(queued.ok(), "the job is open");
  return work;
}

void EnqueueService::device_lost(const std::vector<std::pair<JobId, Error>>& why) {
  MutexLock lock(mutex_);
  lost_ = why;
}

std::optional<std::vector<std::pair<JobId, Error>>> EnqueueService::lost() {
  MutexLock lock(mutex_);
  return lost_;
}

Result<float> output_of(const std::shared_ptr<service::Work>& work) {
  const std::optional<Status> done = work->wait(Duration(-1));
  if (!*done) return done->error();
  std::vector<float> output(EnqueueService::kCount);
  const lanes::OutputView room{.data = output.data(), .bytes = output.size() * sizeof(float)};
  if (Status copied = work->copy_outputs({&room, 1}); !copied) return copied.error();
  LW_CHECK(output.front() == output.back(), "all figures are equal");
  return output.front();
}

}  // namespace laneway::testing
