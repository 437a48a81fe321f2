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
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/plan_output.h"
#include "bench/planned_job.h"
#include "bench/trial_loop.h"
#include "lanes/run/forwarding_runner.h"
#include "memory/height_planner.h"
#include "memory/heights.h"
#include "memory/lane_arena.h"
#include "memory/planned_tape.h"

namespace {

using laneway::bench::now_ns;
using laneway::bench::PlannedJob;
using laneway::bench::print_list;
using laneway::memory::AllocationTape;
using laneway::memory::Heights;
using laneway::memory::Plan;

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

int measure(PlannedJob& job, int trials, uint64_t seed) {
  const auto use = job.record(job.graph());
  laneway::lanes::GraphRunner& runner = job.graph().runner();
  const AllocationTape& tape = *use.tape;
  const auto [lowest, lowest_s] =
      timed([&] { return laneway::memory::plan_tape(tape, {.alignment = job.alignment()}); });
  const auto planned = laneway::memory::make_planned_tape(tape, lowest);
  std::vector<std::vector<int64_t>> times(runner.node_count());
  TimingRunner timing(runner, times);
  for (int trial = 0; trial < trials; ++trial) job.run_planned(job.graph(), timing, planned);
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
  std::printf("{\"first_write\": %zu, ", runner.first_write());
  laneway::bench::print_tape(tape, use.marks);
  laneway::bench::print_ns("node_ns", medians);
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
  PlannedJob job(argv[1]);
  return measure(job, trials, std::strtoull(argv[3], nullptr, 10));
}
