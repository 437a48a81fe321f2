// laneway-plan-height: the plans of a real iteration, and what each of its nodes takes.
//
//     laneway-plan-height FOLDER TRIALS SEED
//
// Loads the job whose files are in FOLDER (bench/job_files.h), records the tape of one iteration,
// plans it for the lowest peak, runs it by this plan TRIALS times from the same state, and plans it
// for low heights, weighted by the median times of the nodes. Prints one JSON object:
// "first_write"; the tape as "allocations" ([bytes, frees before it]), "frees" and "marks"
// ([allocations, frees] by the start of each node, and the end of the last); "node_ns" by node;
// "lowest" and "heights", each with "offsets", "rise" and "reach" (by mark), "peak_bytes" and
// "search_s" (seconds of the thread).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adaptor/host/host_backend.h"
#include "adaptor/run/torch_job.h"
#include "adaptor/scope/lane_scope.h"
#include "bench/job_files.h"
#include "bench/trial_loop.h"
#include "lanes/run/control_word.h"
#include "lanes/run/executor.h"
#include "lanes/run/forwarding_runner.h"
#include "memory/height_planner.h"
#include "memory/heights.h"
#include "memory/lane_arena.h"
#include "memory/planned_tape.h"
#include "service/worker/run/marking_runner.h"
#include "service/worker/run/work.h"

namespace {

using laneway::bench::now_ns;
using laneway::memory::AllocationTape;
using laneway::memory::Heights;
using laneway::memory::LaneArena;
using laneway::memory::Plan;
using laneway::memory::TapePosition;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "laneway-plan-height: %s\n", why.c_str());
  std::exit(1);
}

template <class T>
T value_of(laneway::Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(result).value();
}

class NoHooks final : public laneway::lanes::ExecutorHooks {
 public:
  void pause(size_t) override {}
  laneway::lanes::CommitDecision enter_commit_phase(size_t) override {
    return laneway::lanes::CommitDecision::go;
  }
};

// Notes what each node takes.
class TimingRunner final : public laneway::lanes::ForwardingRunner {
 public:
  TimingRunner(laneway::lanes::GraphRunner& runner, std::vector<std::vector<int64_t>>& times)
      : ForwardingRunner(runner), times_(times) {}

  laneway::lanes::NodeOutcome run_node(size_t index) override {
    const int64_t start = now_ns();
    const auto outcome = ForwardingRunner::run_node(index);
    times_[index].push_back(now_ns() - start);
    return outcome;
  }

 private:
  std::vector<std::vector<int64_t>>& times_;
};

class Job {
 public:
  explicit Job(const std::string& folder)
      : files_(value_of(laneway::bench::read_job_files(folder))),
        made_(value_of(laneway::adaptor::TorchJob::make(backend_, files_.slots,
                                                        std::as_bytes(std::span(files_.graph)),
                                                        laneway::mib(1 << 20), nullptr))),
        image_(value_of(files_.image_in(made_.job->layout()))),
        arena_(backend_.alignment()) {
    pool_ = value_of(backend_.device().allocate_pool(made_.job->layout().total()));
    made_.job->bind_image(pool_->data());
    lane_memory_ = value_of(backend_.device().allocate_pool(made_.graph->probe_need() * 2));
    lane_ = value_of(backend_.make_lane());
    arena_.bind(lane_memory_->data(), lane_memory_->size());
  }

  int64_t alignment() { return backend_.alignment(); }
  size_t nodes() { return made_.graph->runner().node_count(); }
  size_t first_write() { return made_.graph->runner().first_write(); }

  // A probe.
  LaneArena::Use record() {
    laneway::service::MarkingRunner marking(made_.graph->runner(), arena_);
    arena_.begin_probe();
    return run(marking);
  }
  // By a plan; appends what each node took.
  void run_planned(const std::shared_ptr<const laneway::memory::PlannedTape>& planned,
                   std::vector<std::vector<int64_t>>& times) {
    TimingRunner timing(made_.graph->runner(), times);
    arena_.begin_planned(planned);
    if (run(timing).went_off_tape) fail("an iteration left its tape");
  }

 private:
  // The outputs' places, and their bytes.
  std::vector<laneway::lanes::OutputView> output_views() {
    const laneway::lanes::Graph& graph = made_.graph->graph();
    std::vector<laneway::lanes::OutputView> views;
    given_.resize(graph.outputs.size());
    for (size_t i = 0; i < given_.size(); ++i) {
      given_[i].resize(laneway::service::output_bytes(graph, graph.outputs[i]));
      views.push_back({.data = given_[i].data(), .bytes = given_[i].size()});
    }
    return views;
  }

  // Once the arena has begun.
  LaneArena::Use run(laneway::lanes::GraphRunner& runner) {
    std::copy(image_.begin(), image_.end(), pool_->data());
    const laneway::adaptor::LaneScope scope(*lane_, arena_, made_.graph->graph().context);
    NoHooks hooks;
    laneway::lanes::ControlWord word;
    const auto report = laneway::lanes::Executor(runner, word, hooks)
                            .run(files_.input_views(made_.graph->graph()), output_views());
    if (report.outcome != laneway::lanes::IterationOutcome::completed) fail(report.error.message);
    return arena_.end();
  }

  laneway::adaptor::HostBackend backend_;
  const laneway::bench::JobFiles files_;
  laneway::adaptor::TorchJob::Made made_;
  const std::vector<std::byte> image_;
  std::vector<std::vector<char>> given_;
  std::unique_ptr<laneway::memory::MemoryBlock> pool_, lane_memory_;
  std::unique_ptr<laneway::adaptor::DeviceLane> lane_;
  LaneArena arena_;
};

template <class Item, class Print>
void print_list(const char* name, const std::vector<Item>& items, Print print) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) std::printf(", ");
    print(items[i]);
  }
  std::printf("], ");
}

void print_bytes(const char* name, const std::vector<uint64_t>& bytes) {
  print_list(name, bytes,
             [](uint64_t one) { std::printf("%llu", static_cast<unsigned long long>(one)); });
}

void print_plan(const char* name, const Plan& plan, const Heights& heights, double search_s,
                const char* end) {
  std::printf("\"%s\": {", name);
  print_bytes("offsets", plan.offsets);
  print_bytes("rise", heights.rise);
  print_bytes("reach", heights.reach);
  std::printf("\"peak_bytes\": %lld, \"search_s\": %.4f}%s",
              static_cast<long long>(plan.peak.count()), search_s, end);
}

void print_tape(const AllocationTape& tape, const std::vector<TapePosition>& marks) {
  print_list("allocations", tape.allocations, [](const auto& allocation) {
    std::printf("[%llu, %u]", static_cast<unsigned long long>(allocation.bytes),
                allocation.frees_before);
  });
  print_list("frees", tape.frees, [](uint32_t index) { std::printf("%u", index); });
  print_list("marks", marks, [](const TapePosition& mark) {
    std::printf("[%u, %u]", mark.allocations, mark.frees);
  });
}

double thread_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// The plan, and the seconds that it took this thread: whoever else computes on the machine does
// not count.
template <class Planner>
std::pair<Plan, double> timed(Planner plan) {
  const double start = thread_s();
  Plan made = plan();
  return {std::move(made), thread_s() - start};
}

int measure(Job& job, int trials, uint64_t seed) {
  LaneArena::Use use = job.record();
  if (!use.tape || use.marks.size() != job.nodes() + 1) fail("the probe left no marked tape");
  const AllocationTape& tape = *use.tape;
  const auto [lowest, lowest_s] =
      timed([&] { return laneway::memory::plan_tape(tape, {.alignment = job.alignment()}); });
  const auto planned = laneway::memory::make_planned_tape(tape, lowest);
  std::vector<std::vector<int64_t>> times(job.nodes());
  for (int trial = 0; trial < trials; ++trial) job.run_planned(planned, times);
  std::vector<int64_t> medians;
  for (std::vector<int64_t>& of_node : times) {
    const auto middle = of_node.begin() + static_cast<ptrdiff_t>(of_node.size() / 2);
    std::nth_element(of_node.begin(), middle, of_node.end());
    medians.push_back(*middle);
  }
  std::vector<double> weights(medians.begin(), medians.end());
  weights.push_back(0);  // behind the last node
  const auto [low, low_s] = timed([&] {
    return laneway::memory::plan_heights(tape, use.marks, weights,
                                         {.alignment = job.alignment(), .seed = seed});
  });
  std::printf("{\"first_write\": %zu, ", job.first_write());
  print_tape(tape, use.marks);
  print_list("node_ns", medians,
             [](int64_t ns) { std::printf("%lld", static_cast<long long>(ns)); });
  const auto print = [&](const char* name, const Plan& plan, double search_s, const char* end) {
    print_plan(name, plan, laneway::memory::heights_of(tape, plan, use.marks), search_s, end);
  };
  print("lowest", lowest, lowest_s, ", ");
  print("heights", low, low_s, "}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc == 4 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 0;
  if (trials < 1) {
    std::fprintf(stderr, "usage: laneway-plan-height FOLDER TRIALS SEED (trials: at least 1)\n");
    return 2;
  }
  Job job(argv[1]);
  return measure(job, trials, std::strtoull(argv[3], nullptr, 10));
}
