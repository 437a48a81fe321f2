// The simulator against figures that are computed otherwise: one server in order of arrival, exact
// to the nanosecond; jobs whose hosts work between iterations; lanes that slow each other down;
// images over a link. And what it must refuse to do for ever.
#include "simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "base/random.h"
#include "simulator/summary.h"
#include "tests/simulation/memory_checker.h"
#include "tests/simulation/observed.h"

namespace laneway::simulator {
namespace {

SimulatorConfig config_of(const std::string& policy, uint32_t lanes, Bytes memory = gib(1024)) {
  SimulatorConfig config;
  config.core.capacity = memory;
  config.core.set_lanes(lanes, lanes);
  config.core.check_every = 1;
  config.policy = policy;
  return config;
}

SimJob job_of(Duration submit, uint64_t iterations, Duration iteration) {
  SimJob job;
  job.submit = TimePoint() + submit;
  job.iterations = iterations;
  job.iteration = job.estimate = iteration;
  job.options.total_iterations = iterations;
  return job;
}

std::vector<SimJob> drawn_jobs(uint64_t seed) {
  Random random(seed);
  std::vector<SimJob> jobs;
  for (int64_t i = random.between(1, 30); i > 0; --i) {
    // Several come at one instant, and the file is in no order.
    jobs.push_back(job_of(seconds(random.between(0, 60)),
                          static_cast<uint64_t>(random.between(1, 2'000)),
                          Duration(random.between(1, 40'000'000))));
    jobs.back().options.name = "job" + std::to_string(jobs.size());
  }
  return jobs;
}

std::unique_ptr<Simulator> ran(const SimulatorConfig& config, const std::vector<SimJob>& jobs) {
  auto simulator = std::make_unique<Simulator>(config);
  for (const SimJob& job : jobs) simulator->add(job);
  const Status status = simulator->run();
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return simulator;
}

class Seeds : public testing::Test {
 protected:
  static std::vector<uint64_t> all(uint64_t count) {
    if (const char* only = std::getenv("LANEWAY_SEED")) return {std::strtoull(only, nullptr, 10)};
    std::vector<uint64_t> seeds(count);
    std::iota(seeds.begin(), seeds.end(), 1);
    return seeds;
  }
};

using SimulatorSeeds = Seeds;

// Each job begins when a server is free, in the order of arrival, equal ones in the file's.
TEST_F(SimulatorSeeds, JobsByThemselvesEndWhereServersInOrderOfArrivalEndThem) {
  for (const uint64_t seed : all(60)) {
    SCOPED_TRACE("run again with LANEWAY_SEED=" + std::to_string(seed));
    const std::vector<SimJob> jobs = drawn_jobs(seed);
    const auto servers = static_cast<uint32_t>(1 + seed % 4);
    const auto simulator = ran(config_of("fifo:share=no:age=off", servers), jobs);
    std::vector<size_t> order(jobs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return jobs[a].submit < jobs[b].submit; });
    std::vector<TimePoint> free(servers);
    for (const size_t i : order) {
      TimePoint& server = *std::min_element(free.begin(), free.end());
      const TimePoint begins = std::max(server, jobs[i].submit);
      const Duration takes = jobs[i].iteration * static_cast<int64_t>(jobs[i].iterations);
      server = begins + takes;
      const JobResult result = simulator->result(i);
      ASSERT_EQ(result.begun, begins) << "job " << i;
      ASSERT_EQ(result.ended, server) << "job " << i;
      EXPECT_EQ(result.iterations, jobs[i].iterations);
      EXPECT_EQ(result.busy, takes);
      EXPECT_EQ(result.work, takes);
      EXPECT_EQ(result.waited, begins - jobs[i].submit);
    }
    EXPECT_EQ(simulator->counts().preemptions, 0u);
    // A turn without a bound is asked once whether it has work, when somebody waits.
    EXPECT_GE(simulator->counts().turns, jobs.size());
    EXPECT_LE(simulator->counts().turns, 2 * jobs.size());
  }
}

// Whatever the policy does: a lane of one server is never without work while there is some, and
// iterations are done exactly.
TEST_F(SimulatorSeeds, UnderEveryOrderTheServerDoesTheSameWorkInTheSameTime) {
  const std::vector<std::string> policies = {
      "fifo", "sjf", "srtf", "fair", "las", "edf", "priority", "fifo:by=request", "packing"};
  for (const uint64_t seed : all(20)) {
    const std::vector<SimJob> jobs = drawn_jobs(seed);
    const auto whole = [](const SimJob& job) {
      return job.iteration * static_cast<int64_t>(job.iterations);
    };
    std::vector<SimJob> order = jobs;
    std::stable_sort(order.begin(), order.end(),
                     [](const SimJob& a, const SimJob& b) { return a.submit < b.submit; });
    TimePoint end;
    for (const SimJob& job : order) end = std::max(end, job.submit) + whole(job);
    for (const std::string& policy : policies) {
      SCOPED_TRACE(policy + ", run again with LANEWAY_SEED=" + std::to_string(seed));
      const auto simulator = ran(config_of(policy, 1), jobs);
      TimePoint last;
      for (size_t i = 0; i < jobs.size(); ++i) {
        const JobResult result = simulator->result(i);
        last = std::max(last, result.ended);
        EXPECT_EQ(result.iterations, jobs[i].iterations);
        EXPECT_EQ(result.busy, whole(jobs[i]));
        EXPECT_EQ(result.waited + result.busy, result.ended - jobs[i].submit);
      }
      EXPECT_EQ(last, end);
    }
  }
}

// In a pool for a third of the jobs, by a checker that sees events and actions alone.
TEST_F(SimulatorSeeds, WithLittleMemoryEveryJobEndsAndEveryActionKeepsToTheMemory) {
  for (const uint64_t seed : all(20)) {
    SCOPED_TRACE("run again with LANEWAY_SEED=" + std::to_string(seed));
    std::vector<SimJob> jobs = drawn_jobs(seed);
    Random random(seed);
    for (SimJob& job : jobs) {
      job.persistent = mib(random.between(1, 100));
      job.ephemeral = mib(random.between(1, 50));
      job.writes = random.chance(0.7);
      if (random.chance(0.3)) job.gap = milliseconds(random.between(1, 50));
      job.iterations = std::min<uint64_t>(job.iterations, 200);
      job.options.total_iterations = job.iterations;
    }
    SimulatorConfig config = config_of(seed % 2 == 0 ? "fair" : "srtf", 2, mib(300));
    config.core.store = gib(8);
    config.copies = {1'000'000'000, 1'000'000'000};
    config.turn_gap = microseconds(80);
    simulation::Observed seen(config.core.capacity.count(), 0, config.core.alignment);
    seen.store = config.core.store.count();
    simulation::MemoryChecker checker;
    std::string violation;
    config.observer = [&](TimePoint now, auto events, auto actions) {
      seen.now = now;
      for (const lanes::Event& event : events) seen.apply(event);
      for (const lanes::Action& action : actions) {
        if (violation.empty()) violation = checker.action(seen, action);
        seen.apply(action);
      }
      if (violation.empty()) violation = checker.settled(seen, events.back());
    };
    const auto simulator = ran(config, jobs);
    EXPECT_EQ(violation, "");
    for (size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_EQ(simulator->result(i).iterations, jobs[i].iterations);
    }
  }
}

TEST(Simulator, EqualRunsAreEqual) {
  const auto hash = [] {
    SimulatorConfig config = config_of("fair", 3, mib(64));
    config.core.store = gib(1);
    config.copies = {100'000'000, 100'000'000};
    std::vector<SimJob> jobs = drawn_jobs(7);
    for (SimJob& job : jobs) job.persistent = mib(20);
    const auto simulator = ran(config, jobs);
    uint64_t value = simulator->counts().events;
    for (size_t i = 0; i < jobs.size(); ++i) {
      value = value * 1'000'003 + static_cast<uint64_t>(simulator->result(i).ended.ns());
    }
    return value;
  };
  EXPECT_EQ(hash(), hash());
}

TEST(Simulator, AHostThatWorksBetweenIterationsLeavesTheLaneToOthers) {
  SimJob job = job_of(seconds(1), 10, milliseconds(30));
  job.gap = milliseconds(50);
  const auto alone = ran(config_of("fifo", 1), {job});
  EXPECT_EQ(alone->result(0).ended, TimePoint() + seconds(1) + milliseconds(10 * 30 + 9 * 50));
  EXPECT_EQ(alone->result(0).waited, Duration());
  EXPECT_EQ(alone->counts().turns, 1u) << "without a rival its turn stays open while it is idle";

  SimJob other = job;
  other.submit = TimePoint() + seconds(1) + milliseconds(30);
  const auto both = ran(config_of("fair", 1), {job, other});
  // Each computes while the other one's host works.
  EXPECT_EQ(both->result(0).ended, alone->result(0).ended);
  EXPECT_EQ(both->result(1).ended, alone->result(0).ended + milliseconds(30));
}

TEST(Simulator, AClientWithSeveralIterationsInFlightIsNeverIdle) {
  SimJob job = job_of(Duration(), 10, milliseconds(30));
  job.gap = milliseconds(20);
  job.in_flight = 2;
  const auto simulator = ran(config_of("fifo", 1), {job});
  EXPECT_EQ(simulator->result(0).ended, TimePoint() + milliseconds(300));
}

TEST(Simulator, LanesThatSlowEachOtherDownGetFasterWhenOneIsDone) {
  SimulatorConfig config = config_of("fifo", 2);
  config.speeds = [](std::span<const size_t> jobs, std::span<double> speeds) {
    std::fill(speeds.begin(), speeds.end(), jobs.size() == 2 ? 0.4 : 1.0);
  };
  const auto simulator = ran(config, {job_of(Duration(), 100, milliseconds(10)),
                                      job_of(milliseconds(500), 10, milliseconds(20))});
  // Beside each other 0.2 s of work takes 0.5 s; of the first job's 1 s 0.3 s are left then.
  EXPECT_NEAR((simulator->result(1).ended - TimePoint()).seconds(), 1.0, 1e-8);
  EXPECT_NEAR((simulator->result(0).ended - TimePoint()).seconds(), 1.3, 1e-8);
  EXPECT_EQ(simulator->result(0).work, seconds(1));
  EXPECT_NEAR(simulator->result(0).busy.seconds(), 1.3, 1e-6);
}

TEST(Simulator, ImagesComeAndLeaveOverTheLinkAndCleanOnesLeaveAtOnce) {
  for (const bool writes : {true, false}) {
    SimulatorConfig config = config_of("priority:age=off", 1, mib(150));
    config.core.store = gib(1);
    config.copies = {mib(100).count(), mib(100).count()};
    SimJob first = job_of(Duration(), 100, milliseconds(100));
    SimJob urgent = job_of(seconds(5), 10, milliseconds(100));
    SimJob later = job_of(seconds(20), 10, milliseconds(100));
    urgent.options.priority = later.options.priority = 1;
    for (SimJob* job : {&first, &urgent, &later}) {
      job->persistent = mib(100);
      job->writes = writes;
    }
    const auto simulator = ran(config, {first, urgent, later});
    EXPECT_EQ(simulator->result(0).begun, TimePoint() + seconds(1)) << "a second of 100 MiB/s";
    // The first one's image leaves once in a second, or, for the later one, twice without a copy
    // if nothing was written since.
    EXPECT_GE(simulator->result(1).begun, TimePoint() + seconds(7));
    EXPECT_LE(simulator->result(1).begun, TimePoint() + seconds(7) + milliseconds(200));
    EXPECT_EQ(simulator->counts().evictions, simulator->result(0).evictions);
    EXPECT_EQ(simulator->counts().moved_out,
              mib(100) * (writes ? static_cast<int64_t>(simulator->counts().evictions) : 1));
  }
}

TEST(Simulator, AJobThatIsLargerThanTheDeviceIsRefusedWithTheArithmetic) {
  SimJob large = job_of(Duration(), 10, milliseconds(1));
  large.persistent = gib(2);
  const std::vector<SimJob> jobs = {large, job_of(seconds(1), 10, milliseconds(1))};
  const auto simulator = ran(config_of("fifo", 1, gib(1)), jobs);
  EXPECT_TRUE(simulator->result(0).refused);
  EXPECT_THAT(simulator->result(0).reason, testing::HasSubstr("2 GiB"));
  const std::vector<JobResult> results = {simulator->result(0), simulator->result(1)};
  const Summary summary = summary_of(jobs, results, simulator->counts());
  EXPECT_EQ(summary.jobs, 2u);
  EXPECT_EQ(summary.refused, 1u);
  EXPECT_DOUBLE_EQ(summary.average_jct_s.value(), 0.01);
}

TEST(Simulator, ThatNothingIsLeftToHappenIsAnErrorAndNoWaitForEver) {
  SimulatorConfig config = config_of("fifo:share=no", 1);
  config.core.merge_after = seconds(1'000'000);
  SimJob endless = job_of(Duration(), UINT64_MAX, seconds(1));
  endless.options = {};
  Simulator simulator(config);
  simulator.add(endless);
  simulator.add(job_of(Duration(), 1, seconds(1)));
  EXPECT_TRUE(simulator.run_until(TimePoint() + seconds(1'000)));
  EXPECT_EQ(simulator.result(0).iterations, 1'000u);
  EXPECT_EQ(simulator.over(), 0u);
  EXPECT_EQ(simulator.result(1).longest_wait, seconds(1'000));
}

}  // namespace
}  // namespace laneway::simulator
