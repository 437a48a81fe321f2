#include "bench/planned_job.h"

#include <errno.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "adaptor/scope/lane_scope.h"
#include "lanes/run/control_word.h"
#include "lanes/run/executor.h"
#include "service/worker/run/marking_runner.h"
#include "service/worker/run/work.h"

namespace laneway::bench {
namespace {

constexpr Bytes kMost = mib(1 << 20);

class NoHooks final : public lanes::ExecutorHooks {
 public:
  void pause(size_t) override {}
  lanes::CommitDecision enter_commit_phase(size_t) override { return lanes::CommitDecision::go; }
};

}  // namespace

void fail(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::exit(1);
}

PlannedJob::PlannedJob(const std::string& folder)
    : files_(value_of(read_job_files(folder))),
      made_(value_of(adaptor::TorchJob::make(
          backend_, files_.slots, std::as_bytes(std::span(files_.graph)), kMost, nullptr))),
      image_(value_of(files_.image_in(made_.job->layout()))),
      random_state_(made_.job->random_state()),
      arena_(backend_.alignment()) {
  pool_ = value_of(backend_.device().allocate_pool(made_.job->layout().total()));
  made_.job->bind_image(pool_->data());
  lane_memory_ = value_of(backend_.device().allocate_pool(made_.graph->probe_need() * 2));
  lane_ = value_of(backend_.make_lane());
  arena_.bind(lane_memory_->data(), lane_memory_->size());
}

Result<std::unique_ptr<adaptor::DeviceGraph>> PlannedJob::make_graph(
    std::span<const std::byte> bytes) {
  return made_.job->make_graph(bytes, kMost, nullptr);
}

memory::LaneArena::Use PlannedJob::record(adaptor::DeviceGraph& graph) {
  service::MarkingRunner marking(graph.runner(), arena_);
  arena_.begin_probe();
  memory::LaneArena::Use use = run(graph.graph(), marking);
  if (!use.tape || use.marks.size() != graph.runner().node_count() + 1)
    fail("the probe left no marked tape");
  return use;
}

void PlannedJob::run_planned(adaptor::DeviceGraph& graph, lanes::GraphRunner& runner,
                             const std::shared_ptr<const memory::PlannedTape>& planned) {
  arena_.begin_planned(planned);
  if (run(graph.graph(), runner).went_off_tape) fail("an iteration left its tape");
}

std::vector<std::byte> PlannedJob::results() const {
  std::vector<std::byte> all(pool_->data(), pool_->data() + image_.size());
  for (const std::vector<std::byte>& output : outputs_)
    all.insert(all.end(), output.begin(), output.end());
  return all;
}

std::vector<lanes::OutputView> PlannedJob::output_views(const lanes::Graph& graph) {
  std::vector<lanes::OutputView> views;
  outputs_.resize(graph.outputs.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].resize(service::output_bytes(graph, graph.outputs[i]));
    views.push_back({.data = outputs_[i].data(), .bytes = outputs_[i].size()});
  }
  return views;
}

memory::LaneArena::Use PlannedJob::run(const lanes::Graph& graph, lanes::GraphRunner& runner) {
  std::copy(image_.begin(), image_.end(), pool_->data());
  if (const Status set = made_.job->set_random_state(random_state_); !set)
    fail(set.error().message);
  const adaptor::LaneScope scope(*lane_, arena_, graph.context);
  NoHooks hooks;
  lanes::ControlWord word;
  const auto report =
      lanes::Executor(runner, word, hooks).run(files_.input_views(graph), output_views(graph));
  if (report.outcome != lanes::IterationOutcome::completed) fail(report.error.message);
  return arena_.end();
}

}  // namespace laneway::bench
