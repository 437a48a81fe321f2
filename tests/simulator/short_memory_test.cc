// Short memory, by the whole core in virtual time, held from outside: whatever the policy, images
// on their way take little of the device, everybody is done, and nobody who comes with others at
// one instant, weighs a thousandth, is always overdue or is a thousand times as small, is left
// behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "simulator/simulator.h"

namespace laneway::simulator {
namespace {

constexpr int64_t kLinkBytesPerS = 1'000'000'000;

SimJob training(Duration submit, Duration work, Bytes image) {
  SimJob job;
  job.submit = TimePoint() + submit;
  job.iteration = job.estimate = milliseconds(20);
  job.iterations = static_cast<uint64_t>(work.ns() / job.iteration.ns());
  job.options.total_iterations = job.iterations;
  job.persistent = image;
  job.ephemeral = mib(16);
  return job;
}

struct Ran {
  std::vector<JobResult> results;
  Counts counts;
  Duration work;      // of all
  Duration makespan;  // from 0
};

Ran run(const std::string& policy, const std::vector<SimJob>& jobs, Bytes pool) {
  SimulatorConfig config;
  config.core.capacity = pool;
  config.core.store = gib(64);
  config.core.set_lanes(1, 1);
  config.policy = policy;
  config.copies = {kLinkBytesPerS, kLinkBytesPerS};
  Simulator simulator(config);
  for (const SimJob& job : jobs) simulator.add(job);
  const Status status = simulator.run();
  EXPECT_TRUE(status) << policy << ": " << (status ? "" : status.error().message);
  Ran ran{.results = {}, .counts = simulator.counts(), .work = {}, .makespan = {}};
  for (size_t i = 0; i < jobs.size(); ++i) {
    ran.results.push_back(simulator.result(i));
    EXPECT_EQ(ran.results.back().iterations, jobs[i].iterations) << policy << ", job " << i;
    ran.work += jobs[i].iteration * static_cast<int64_t>(jobs[i].iterations);
    ran.makespan = std::max(ran.makespan, ran.results.back().ended - TimePoint());
  }
  return ran;
}

// One after the other, each image comes once.
Duration serial(const std::vector<SimJob>& jobs) {
  Duration sum;
  for (const SimJob& job : jobs) {
    sum += job.iteration * static_cast<int64_t>(job.iterations);
    sum += Duration(job.persistent.count() * 1'000'000'000 / kLinkBytesPerS);
  }
  return sum;
}

const std::vector<std::string> kPolicies = {
    "fifo",           "sjf", "srtf", "priority", "edf", "las:width=one", "fair:quantum_s=5",
    "fifo:by=request"};

TEST(ShortMemory, MovingTakesATwentiethAtMostWhateverThePolicy) {
  for (const std::string& policy : kPolicies) {
    for (const char* ageing : {"", ":reserve_s=0.01", ":age=off"}) {
      for (uint64_t seed = 1; seed <= 40; ++seed) {
        Random random(seed);
        std::vector<SimJob> jobs;
        for (int i = 0; i < 6; ++i) {
          jobs.push_back(training(Duration(), seconds(random.between(20, 200)),
                                  mib(random.between(300, 600))));
          jobs.back().options.priority = static_cast<int32_t>(random.between(0, 2));
        }
        const Ran ran = run(policy + ageing, jobs, mib(700));
        // All were there from the beginning, so the device need never be idle.
        EXPECT_LE(ran.makespan.seconds(), serial(jobs).seconds() * 1.06)
            << policy << ageing << ", seed " << seed << ": " << ran.counts.evictions << " left";
      }
    }
  }
}

TEST(ShortMemory, EqualOnesThatComeAtOneInstantAreServedOneAfterTheOther) {
  const std::vector<SimJob> jobs(5, training(Duration(), seconds(20), mib(500)));
  for (const char* policy : {"fifo", "sjf", "srtf", "priority", "edf"}) {
    const Ran ran = run(policy, jobs, mib(700));
    EXPECT_LE(ran.counts.evictions, 5u) << policy;
    for (size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_NEAR((ran.results[i].ended - TimePoint()).seconds(), 20.6 * double(i + 1), 1.5)
          << policy << ", job " << i;
    }
  }
}

TEST(ShortMemory, AThousandthOfTheWeightIsNotNothing) {
  std::vector<SimJob> jobs(2, training(Duration(), seconds(60), mib(500)));
  jobs[0].options.weight = 1000;
  const Ran ran = run("fair:quantum_s=2", jobs, mib(700));
  EXPECT_LT(ran.results[0].ended, ran.results[1].ended);
  // The other one has a stay meanwhile, twenty switches of a second, at the most.
  EXPECT_LE((ran.results[0].ended - TimePoint()).seconds(), 60 + 2 + 21);
}

TEST(ShortMemory, WhoIsAlwaysOverdueGetsInAndThrashesNobody) {
  std::vector<SimJob> jobs{training(Duration(), seconds(1500), mib(500)),
                           training(seconds(1), seconds(1500), mib(500))};
  const Ran ran = run("fifo:reserve_s=0.001:age_s=0.001", jobs, mib(700));
  EXPECT_LE(ran.makespan.seconds(), serial(jobs).seconds() * 1.06);
  // Overdue after 400 switches of a second, and never before.
  EXPECT_NEAR((ran.results[1].begun - TimePoint()).seconds(), 420, 30);
  EXPECT_GE(ran.counts.evictions, 3u) << "each time anew";
}

TEST(ShortMemory, ImagesAThousandTimesApart) {
  std::vector<SimJob> jobs{training(Duration(), seconds(60), mib(600)),
                           training(seconds(1), seconds(2), kib(600)),
                           training(seconds(2), seconds(60), mib(600))};
  for (const std::string& policy : kPolicies) {
    const Ran ran = run(policy, jobs, mib(700));
    EXPECT_LE(ran.makespan.seconds(), serial(jobs).seconds() * 1.06) << policy;
  }
  // There is room beside the large ones: it waits for turns, not for memory.
  const Ran fair = run("fair", jobs, mib(700));
  EXPECT_LE((fair.results[1].ended - TimePoint()).seconds(), 1 + 2 * 3 + 1);
}

}  // namespace
}  // namespace laneway::simulator
