#include "tests/service/preempt_rig.h"

#include <utility>

#include "base/check.h"
#include "lanes/graph/graph_codec.h"
#include "policies/registry.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::testing {
namespace {

constexpr Bytes kPool = mib(16);
constexpr Duration kLongest = seconds(60);

// A graph whose nodes pass a gate.
class GatedGraph final : public adaptor::DeviceGraph, private lanes::GraphRunner {
 public:
  GatedGraph(std::unique_ptr<adaptor::DeviceGraph> graph, std::shared_ptr<NodeGate> gate)
      : graph_(std::move(graph)), gate_(std::move(gate)) {}

  const lanes::Graph& graph() const override { return graph_->graph(); }
  uint32_t threads() const override { return graph_->threads(); }
  const lanes::GraphMemory& memory() const override { return graph_->memory(); }
  adaptor::ProgramHandle program() const override { return graph_->program(); }
  Bytes probe_need() const override { return graph_->probe_need(); }
  bool draws() const override { return graph_->draws(); }
  lanes::GraphRunner& runner() override { return *this; }
  void allow_replay(bool allowed) override {
    gate_->allow_replay(allowed);
    graph_->allow_replay(allowed);
  }
  void allow_existing_recordings() override { graph_->allow_existing_recordings(); }
  bool replays() const override { return graph_->replays(); }
  uint64_t replayed() const override { return graph_->replayed(); }
  const adaptor::Recordings& recordings() const override { return graph_->recordings(); }

 private:
  size_t node_count() const override { return graph_->graph().nodes.size(); }
  size_t first_write() const override { return graph_->graph().first_write; }
  Status begin(std::span<const lanes::InputView> inputs) override { return own().begin(inputs); }
  lanes::NodeOutcome run_node(size_t index) override {
    gate_->enter(index);
    return own().run_node(index);
  }
  Status finish(std::span<const lanes::OutputView> outputs) override {
    return own().finish(outputs);
  }
  void abandon() override { own().abandon(); }
  const Error& last_error() const override { return graph_->runner().last_error(); }

  lanes::GraphRunner& own() { return graph_->runner(); }

  const std::unique_ptr<adaptor::DeviceGraph> graph_;
  const std::shared_ptr<NodeGate> gate_;
};

}  // namespace

void NodeGate::stop_at(size_t node) {
  MutexLock lock(mutex_);
  stop_ = node;
  reached_ = false;
}

void NodeGate::wait_reached() {
  MutexLock lock(mutex_);
  while (!reached_) changed_.wait(mutex_);
}

void NodeGate::go_on() {
  MutexLock lock(mutex_);
  stop_.reset();
  changed_.notify_all();
}

void NodeGate::let_one_pass() {
  MutexLock lock(mutex_);
  ++passes_;
  reached_ = false;
  changed_.notify_all();
}

uint64_t NodeGate::runs(size_t node) {
  MutexLock lock(mutex_);
  return runs_[node];
}

void NodeGate::wait_runs(size_t node, uint64_t runs) {
  MutexLock lock(mutex_);
  while (runs_[node] < runs) changed_.wait(mutex_);
}

bool NodeGate::may_replay() {
  MutexLock lock(mutex_);
  return may_replay_;
}

void NodeGate::allow_replay(bool allowed) {
  MutexLock lock(mutex_);
  may_replay_ = allowed;
}

void NodeGate::enter(size_t node) {
  MutexLock lock(mutex_);
  ++runs_[node];
  reached_ = stop_ == node;
  changed_.notify_all();
  const uint64_t passes = passes_;
  while (stop_ == node && passes_ == passes) changed_.wait(mutex_);
}

PreemptRig::PreemptRig(uint32_t lanes) {
  pool_ = backend_->device().allocate_pool(kPool).value();
  worker_.reset(new service::Worker(*backend_, pool_->data(), kPool, *this, clock_));
  lanes::SchedulerConfig config;
  config.capacity = kPool;
  config.max_lanes = lanes;
  loop_ = std::make_unique<lanes::CoreLoop>(
      std::make_unique<lanes::Scheduler>(config, policies::make_policy("fifo").value()), clock_,
      *worker_, lanes::CoreLoop::Timer::cranked);
}

PreemptRig::~PreemptRig() {
  for (const auto& gate : gates_) gate->go_on();
  worker_->close_all();
}

PreemptRig::GatedJob PreemptRig::add_job(const std::string& name, int32_t priority) {
  auto torch = adaptor::make_job(*backend_, adding_slots(kCount),
                                 lanes::encode_graph(adding_graph(kCount)), kPool);
  LW_CHECK(torch.ok(), "the graph is one");
  GatedJob made{.job = nullptr, .gate = gates_.emplace_back(std::make_shared<NodeGate>())};
  torch.value().graph = std::make_unique<GatedGraph>(std::move(torch.value().graph), made.gate);
  const JobId id(++last_job_);
  lanes::JobOffered offer{.job = id,
                          .session = SessionId(1),
                          .options = {.name = name, .priority = priority},
                          .iteration_estimate = Duration(),
                          .persistent = torch.value().job->layout().total(),
                          .ephemeral = torch.value().graph->probe_need(),
                          .context_key = torch.value().job->context_key()};
  made.job = worker_->add_job({.offer = offer,
                               .torch = std::move(torch).value(),
                               .initial = pipeline::InitialImage(adding_slots(kCount))});
  loop_->post(std::move(offer));
  LW_CHECK(worker_->wait_placed(*made.job, Duration(-1))->ok(), "there is room for the job");
  for (int i = 0; i < 2; ++i) {
    LW_CHECK(submit(made, 0)->wait(Duration(-1))->ok(), "an iteration completes");
  }
  return made;
}

std::shared_ptr<service::Work> PreemptRig::submit(GatedJob& job, float value) {
  const std::vector<float> input(kCount, value);
  const lanes::InputView view{.data = input.data(), .bytes = kCount * sizeof(float)};
  auto work = std::make_shared<service::Work>(worker_->find_graph(*job.job, 0).value(),
                                              std::span(&view, 1));
  const Status queued = worker_->submit(job.job, work);
  LW_CHECK(queued.ok(), "the job is open");
  // Another thread may be about to hand the event to the core: the lanes know of it from here on.
  LW_CHECK(loop_->wait_handled(kLongest), "the core handles what is posted");
  job.expected += 2 * value;
  return work;
}

void PreemptRig::post(lanes::Event event) {
  loop_->post(event);
  MutexLock lock(mutex_);
  events_.push_back(std::move(event));
  posted_.notify_all();
}

lanes::JobStatus PreemptRig::status(const GatedJob& job) {
  const lanes::Snapshot snapshot =
      loop_->read([](const lanes::Scheduler& core) { return core.snapshot(); });
  for (const auto* list : {&snapshot.jobs, &snapshot.ended}) {
    for (const lanes::JobStatus& one : *list) {
      if (one.id == job.job->id) return one;
    }
  }
  LW_CHECK(false, "the core knows the job");
  return {};
}

void PreemptRig::wait_state(const GatedJob& job, lanes::JobState state) {
  while (true) {
    size_t seen = 0;
    {
      MutexLock lock(mutex_);
      seen = events_.size();
    }
    LW_CHECK(loop_->wait_handled(kLongest), "the core handles what is posted");
    if (status(job).state == state) return;
    MutexLock lock(mutex_);
    while (events_.size() == seen) posted_.wait(mutex_);
  }
}

std::vector<lanes::Event> PreemptRig::events() {
  MutexLock lock(mutex_);
  return events_;
}

}  // namespace laneway::testing
