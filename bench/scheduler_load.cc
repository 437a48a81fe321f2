// laneway-scheduler-load: how many events a second the core handles, and how long one takes.
//
//     laneway-scheduler-load steady|mix|crowded POLICY EVENTS TRIALS
//
// The first word is a load of bench/core_load.h (1,000 jobs on 64 lanes), POLICY is srtf or
// fifo, without ageing, so that each turn has its order. The load runs once before a witness
// (bench/load_witness.h), which checks that it is one and that the policy's order holds, then in
// each trial twice more from the same start: as a whole, the load's own work included, and with a
// clock around every call of Scheduler::handle. All runs must grant the same turns. Prints one JSON
// object.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "bench/core_load.h"
#include "bench/load_witness.h"
#include "lanes/core/scheduler.h"
#include "policies/registry.h"

namespace {

using laneway::TimePoint;
using laneway::bench::CoreLoad;
using laneway::bench::LoadShape;
using laneway::bench::LoadWitness;
using laneway::bench::Order;
using laneway::lanes::Action;
using laneway::lanes::Scheduler;
using laneway::lanes::SchedulerConfig;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kWarmUp = 20;  // events for each job, before anything is counted
constexpr uint64_t kCalibrationSteps = 10'000'000;

struct Setup {
  LoadShape shape;
  std::string policy;
  uint64_t events = 0;
  int trials = 0;
};

// A scheduler under load, warm: every job has had its chance, and the next event is the first that
// counts.
struct Run {
  explicit Run(const Setup& setup)
      : scheduler(config(setup), laneway::policies::make_policy(setup.policy + ":age=off").value()),
        load(setup.shape) {}

  static SchedulerConfig config(const Setup& setup) {
    SchedulerConfig config;
    // Room for every job, or for nearly all of those that come and go.
    config.capacity = laneway::gib(setup.shape.arrivals ? 250 : 128);
    if (setup.shape.crowded) {
      config.capacity = laneway::mib(100) * laneway::bench::kCrowdedPlaces +
                        laneway::mib(32) * laneway::limits::kMaxLanes;
      config.store = laneway::gib(128);  // for all images: each job has a home outside
    }
    config.max_lanes = laneway::limits::kMaxLanes;
    // As on a machine on which that many lanes compute beside each other: none becomes part of
    // another one.
    config.keep_lanes = config.max_lanes;
    config.merge_all_after = config.longest_slice * 1'000'000;
    return config;
  }

  void step() {
    const CoreLoad::Timed timed = load.next(scheduler.next_wakeup());
    load.carry_out(scheduler.handle(timed.at, timed.event));
  }
  void warm_up(const Setup& setup) {
    for (uint64_t i = 0; i < setup.shape.jobs * kWarmUp; ++i) step();
  }

  Scheduler scheduler;
  CoreLoad load;
};

// What the core holds at the end says whether two runs were one: every job's iterations and lane.
uint64_t digest(const Run& run) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  const auto mix = [&hash](uint64_t word) { hash = (hash ^ word) * 0x100000001b3ULL; };
  for (const auto& job : run.scheduler.snapshot().jobs) {
    mix(job.id.value());
    mix(job.lane.value());
    mix(job.iterations);
    mix(static_cast<uint64_t>(job.device_time.seconds() * 1e9));
  }
  return hash;
}

void fail(const std::string& what) {
  std::fprintf(stderr, "laneway-scheduler-load: %s\n", what.c_str());
  std::exit(1);
}

// Runs the load once with a witness; the digest of its end, and what was counted.
uint64_t witnessed(const Setup& setup, LoadWitness::Counts& counts) {
  Run run(setup);
  LoadWitness witness(setup.policy == "fifo" ? Order::earliest_first : Order::shortest_first);
  const uint64_t warm_up = setup.shape.jobs * kWarmUp;
  for (uint64_t i = 0; i < warm_up + setup.events; ++i) {
    if (i == warm_up) witness.start_counting();
    const CoreLoad::Timed timed = run.load.next(run.scheduler.next_wakeup());
    const std::vector<Action>& actions = run.scheduler.handle(timed.at, timed.event);
    if (!witness.saw(timed.event, actions, run.scheduler.view())) fail(witness.error());
    run.load.carry_out(actions);
  }
  counts = witness.counts();
  if (run.scheduler.policy_faults() != 0) fail("the policy gave answers that the core refused");
  return digest(run);
}

// A load that does not make the core choose measures nothing.
void require_honest(const Setup& setup, const LoadWitness::Counts& counts) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) fail("the load is not what it is meant to be: " + what);
  };
  require(counts.events == setup.events, std::to_string(counts.events) + " events");
  require(counts.lanes == laneway::limits::kMaxLanes, std::to_string(counts.lanes) + " lanes ran");
  require(counts.mean_candidates() > 10 && counts.mean_candidates() < 20,
          std::to_string(counts.mean_candidates()) + " jobs were ready at a choice");
  if (setup.shape.crowded) {
    const uint64_t outside = setup.shape.jobs - laneway::bench::kCrowdedPlaces;
    require(counts.evictions >= outside && counts.returns >= outside,
            std::to_string(counts.evictions) + " images left and " +
                std::to_string(counts.returns) + " came back");
    require(counts.choices > counts.events / 2, std::to_string(counts.choices) + " choices in " +
                                                    std::to_string(counts.events) + " events");
  } else if (!setup.shape.arrivals) {
    require(counts.choices == counts.events, std::to_string(counts.choices) + " choices in " +
                                                 std::to_string(counts.events) + " events");
    require(counts.distinct_jobs == setup.shape.jobs,
            std::to_string(counts.distinct_jobs) + " jobs had a turn");
    require(counts.switches > counts.turns / 2,
            std::to_string(counts.switches) + " turns went to another job than the last");
  } else {
    require(counts.arrivals > 0 && counts.departures > 0, "no job came or went");
    require(counts.choices > counts.events / 4, std::to_string(counts.choices) + " choices in " +
                                                    std::to_string(counts.events) + " events");
  }
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// By the clock, and of this thread's own time: what others on the machine take is not in that.
int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}
int64_t own_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Rates {
  double per_s = 0;
  double per_own_s = 0;
};
Rates events_per_s(const Setup& setup, uint64_t expected) {
  Run run(setup);
  run.warm_up(setup);
  const Clock::time_point start = Clock::now();
  const int64_t own_start = own_ns();
  for (uint64_t i = 0; i < setup.events; ++i) run.step();
  const double own_took = static_cast<double>(own_ns() - own_start) * 1e-9;
  const double took = seconds_since(start);
  if (digest(run) != expected) fail("a timed run granted other turns than the witnessed one");
  const auto events = static_cast<double>(setup.events);
  return {events / took, events / own_took};
}

// Nanoseconds of every call of handle by that clock, ascending.
std::vector<int64_t> handle_ns(const Setup& setup, uint64_t expected, int64_t (*now)()) {
  Run run(setup);
  run.warm_up(setup);
  std::vector<int64_t> times;
  times.reserve(setup.events);
  for (uint64_t i = 0; i < setup.events; ++i) {
    const CoreLoad::Timed timed = run.load.next(run.scheduler.next_wakeup());
    const int64_t start = now();
    const std::vector<Action>& actions = run.scheduler.handle(timed.at, timed.event);
    times.push_back(now() - start);
    run.load.carry_out(actions);
  }
  if (digest(run) != expected) fail("a timed run granted other turns than the witnessed one");
  std::sort(times.begin(), times.end());
  return times;
}

// Fixed integer arithmetic that touches no memory, in milliseconds.
double calibration_ms() {
  const Clock::time_point start = Clock::now();
  volatile uint64_t keep = 1;
  uint64_t x = keep;
  for (uint64_t i = 0; i < kCalibrationSteps; ++i) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
  }
  keep = x;
  return seconds_since(start) * 1e3;
}

double at_share_us(const std::vector<int64_t>& ascending, double share) {
  const auto last = static_cast<double>(ascending.size() - 1);
  return static_cast<double>(ascending[static_cast<size_t>(share * last)]) * 1e-3;
}

void print_samples(const char* name, const std::vector<double>& samples) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < samples.size(); ++i) std::printf("%s%.6g", i == 0 ? "" : ", ", samples[i]);
  std::printf("], ");
}

void print_counts(const LoadWitness::Counts& counts) {
  const auto print = [](const char* name, uint64_t count) {
    std::printf("\"%s\": %llu, ", name, static_cast<unsigned long long>(count));
  };
  print("events", counts.events);
  print("turns", counts.turns);
  print("choices", counts.choices);
  print("switches", counts.switches);
  print("distinct_jobs", counts.distinct_jobs);
  print("arrivals", counts.arrivals);
  print("departures", counts.departures);
  print("evictions", counts.evictions);
  print("returns", counts.returns);
  std::printf("\"mean_candidates\": %.3f, ", counts.mean_candidates());
}

void measure(const Setup& setup) {
  LoadWitness::Counts counts;
  const uint64_t expected = witnessed(setup, counts);
  require_honest(setup, counts);
  std::vector<double> rates, own_rates, p50, p99, max, own_max, loop_ms;
  for (int trial = 0; trial < setup.trials; ++trial) {
    loop_ms.push_back(calibration_ms());
    const Rates found = events_per_s(setup, expected);
    rates.push_back(found.per_s);
    own_rates.push_back(found.per_own_s);
    const std::vector<int64_t> times = handle_ns(setup, expected, clock_ns);
    p50.push_back(at_share_us(times, 0.5));
    p99.push_back(at_share_us(times, 0.99));
    max.push_back(at_share_us(times, 1));
    own_max.push_back(at_share_us(handle_ns(setup, expected, own_ns), 1));
  }
  std::printf("{");
  print_samples("events_per_s", rates);
  print_samples("events_per_own_s", own_rates);
  print_samples("handle_p50_us", p50);
  print_samples("handle_p99_us", p99);
  print_samples("handle_max_us", max);
  print_samples("handle_max_own_us", own_max);
  print_samples("loop_ms", loop_ms);
  print_counts(counts);
#ifdef __OPTIMIZE__
  std::printf("\"optimized\": true}\n");
#else
  std::printf("\"optimized\": false}\n");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  if (argc == 5) {
    setup.shape.arrivals = std::strcmp(argv[1], "mix") == 0;
    setup.shape.crowded = std::strcmp(argv[1], "crowded") == 0;
    setup.policy = argv[2];
    setup.events = std::strtoull(argv[3], nullptr, 10);
    setup.trials = static_cast<int>(std::strtol(argv[4], nullptr, 10));
  }
  const bool known_load = argc == 5 && (setup.shape.arrivals || setup.shape.crowded ||
                                        std::strcmp(argv[1], "steady") == 0);
  const bool known_policy = setup.policy == "srtf" || setup.policy == "fifo";
  if (!known_load || !known_policy || setup.events == 0 || setup.trials < 1) {
    std::fprintf(stderr,
                 "usage: laneway-scheduler-load steady|mix|crowded srtf|fifo EVENTS TRIALS "
                 "(both at least 1)\n");
    return 2;
  }
  measure(setup);
  return 0;
}
