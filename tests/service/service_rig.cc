#include "tests/service/service_rig.h"

#include <cmath>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "lanes/graph/graph_codec.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::testing {

std::unique_ptr<service::EmbeddedService> open_service(uint32_t lanes, Bytes pool,
                                                       const std::string& policy) {
  auto opened = service::EmbeddedService::open(
      {.pool = pool, .policy = policy, .lanes = lanes, .device = "host", .store = Bytes()});
  return std::move(opened).value();
}

TinyJob::TinyJob(service::EmbeddedService& service, std::string name, int64_t count,
                 int32_t priority)
    : service_(service), count_(count), input_(static_cast<size_t>(count)) {
  service::JobRequest request;
  request.options.name = std::move(name);
  request.options.priority = priority;
  request.slots = adding_slots(count);
  request.initial = {nullptr};
  job_ = service.create_job(request, lanes::encode_graph(adding_graph(count))).value();
}

lanes::InputView TinyJob::input(float value) {
  input_.assign(input_.size(), value);
  return {.data = input_.data(), .bytes = input_.size() * sizeof(float)};
}

Status TinyJob::run(float value) {
  const lanes::InputView view = input(value);
  std::vector<float> output(input_.size());
  const lanes::OutputView room{.data = output.data(), .bytes = output.size() * sizeof(float)};
  if (const auto done = worker().try_run(*job_, *graph(), {&view, 1}, {&room, 1})) {
    if (!*done) return *done;
    expected_ += 2 * value;
    LW_CHECK(output.front() == expected_ && output.back() == expected_, "the state is counted");
    return {};
  }
  Result<Pending> pending = submit(value);
  if (!pending) return pending.error();
  return wait(pending.value(), expected_);
}

Result<Pending> TinyJob::submit(float value) {
  const lanes::InputView view = input(value);
  auto work = std::make_shared<service::Work>(graph(), std::span(&view, 1));
  if (Status queued = worker().submit(job_, work); !queued) return queued.error();
  expected_ += 2 * value;
  return work;
}

Status TinyJob::wait(const Pending& pending, float expected) {
  const std::optional<Status> done = pending->wait(Duration(-1));
  if (!*done) return *done;
  std::vector<float> output(input_.size());
  const lanes::OutputView room{.data = output.data(), .bytes = output.size() * sizeof(float)};
  if (Status copied = pending->copy_outputs({&room, 1}); !copied) return copied;
  LW_CHECK(output.front() == expected && output.back() == expected, "the state is counted");
  return {};
}

Result<float> TinyJob::read() {
  std::vector<float> state(input_.size());
  auto work = std::make_shared<service::Work>([&state](const pipeline::SlotPlaces& places) {
    return places.read(0, state.data(), state.size() * sizeof(float));
  });
  if (Status queued = worker().access_state(job_, work); !queued) return queued.error();
  const std::optional<Status> done = work->wait(Duration(-1));
  if (!*done) return done->error();
  for (const float figure : state) {
    if (figure != state[0]) return std::nanf("");
  }
  return state[0];
}

struct Blocker::State {
  Mutex mutex;
  CondVar changed;
  bool entered = false;
  bool released = false;
  std::thread thread;
};

Blocker::Blocker(TinyJob& job) : state_(std::make_shared<State>()) {
  auto hold = std::make_shared<service::Work>([state = state_](const pipeline::SlotPlaces&) {
    MutexLock lock(state->mutex);
    state->entered = true;
    state->changed.notify_all();
    while (!state->released) state->changed.wait(state->mutex);
    return Status();
  });
  state_->thread = std::thread([&worker = job.worker(), handle = job.handle(), hold] {
    const Status begun = worker.access_state(handle, hold);
    LW_CHECK(begun.ok(), "the job is open");
  });
  MutexLock lock(state_->mutex);
  while (!state_->entered) state_->changed.wait(state_->mutex);
}

Blocker::~Blocker() { release(); }

void Blocker::release() {
  {
    MutexLock lock(state_->mutex);
    state_->released = true;
    state_->changed.notify_all();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

}  // namespace laneway::testing
