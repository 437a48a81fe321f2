// Shows that jobs whose images are several times the pool keep their state, whoever pushes out
// whom: threads run, submit, read, load, unload, close and make jobs in an order drawn from
// the seed, with room for the images outside in memory, in a file, or hardly enough of both; and
// with beginnings of images that stay in the pool, whose jobs come back around them or elsewhere.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <thread>

#include "base/random.h"
#include "tests/service/service_rig.h"
#include "tests/support/seed.h"

namespace laneway::service {
namespace {

using testing::Pending;
using testing::TinyJob;

constexpr int kOperations = 70;  // of each thread
constexpr size_t kThreads = 3;
constexpr size_t kJobs = 3;                     // of each thread
constexpr int64_t kFloats = int64_t{48} << 10;  // an image of 192 KiB

struct Room {
  Bytes store;
  Bytes spill;
  pipeline::PrefixRule prefix = {};
};

std::unique_ptr<EmbeddedService> open(const Room& room) {
  EmbeddedOptions options{.pool = mib(1), .lanes = 2};
  options.store = room.store;
  options.spill = room.spill;
  options.prefix = room.prefix;
  options.spill_folder = ::testing::TempDir();
  return EmbeddedService::open(options).value();
}

pipeline::PrefixRule share(uint32_t percent) {
  return {.kind = pipeline::PrefixRule::Kind::share, .percent = percent};
}

// One thread's jobs.
class Client {
 public:
  Client(EmbeddedService& service, uint64_t seed) : service_(service), random_(seed) {}

  void work() {
    for (int i = 0; i < kOperations; ++i) step(random_.below(kJobs));
    for (auto& one : jobs_) one.reset();
  }

 private:
  struct Mine {
    Mine(EmbeddedService& service, std::string wanted)
        : name(std::move(wanted)), job(service, name, kFloats) {}
    ~Mine() { job.close(); }
    const std::string name;
    TinyJob job;
  };

  void step(size_t which) {
    std::unique_ptr<Mine>& mine = jobs_.at(which);
    if (mine == nullptr) {
      mine = std::make_unique<Mine>(service_, "job-" + std::to_string(random_.next()));
    }
    const auto value = static_cast<float>(1 + random_.below(3));
    switch (random_.below(10)) {
      case 0: wish(*mine, lanes::Residency::unload); return;
      case 1: wish(*mine, lanes::Residency::load); return;
      case 2: mine.reset(); return;
      case 3:
      case 4: {
        const Result<float> state = mine->job.read();
        ASSERT_TRUE(state) << state.error().message;
        ASSERT_EQ(state.value(), mine->job.expected());
        return;
      }
      case 5: {
        Result<Pending> pending = mine->job.submit(value);
        ASSERT_TRUE(pending) << pending.error().message;
        if (random_.chance(0.3)) wish(*mine, lanes::Residency::unload);
        ASSERT_TRUE(mine->job.wait(pending.value(), mine->job.expected()));
        return;
      }
      default: ASSERT_TRUE(mine->job.run(value)); return;
    }
  }

  void wish(const Mine& mine, lanes::Residency wanted) {
    ASSERT_TRUE(service_.set_residency(mine.name, wanted));
  }

  EmbeddedService& service_;
  Random random_;
  std::array<std::unique_ptr<Mine>, kJobs> jobs_;
};

class EvictStress : public ::testing::TestWithParam<Room> {};

TEST_P(EvictStress, NoStateIsLostWhoeverPushesOutWhom) {
  const auto service = open(GetParam());
  const uint64_t seed = testing::seed_from_environment(5);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { Client(*service, seed + i).work(); });
  }
  for (std::thread& thread : threads) thread.join();
  service->close();
}

INSTANTIATE_TEST_SUITE_P(Rooms, EvictStress,
                         ::testing::Values(Room{mib(4), Bytes()}, Room{Bytes(), mib(4)},
                                           Room{mib(1), mib(1)}, Room{mib(4), Bytes(), share(50)},
                                           Room{Bytes(), mib(4), share(20)}));

}  // namespace
}  // namespace laneway::service
