// Adviser: a simulation follows what a policy's program says of each instant, wakes it, and ends
// with its name and the reason when it fails. The programs are of Python, which the whole of the
// Python tests tries (tests/python/test_policy_files.py).
#include "simulator/adviser.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "simulator/simulator.h"

namespace laneway::simulator {
namespace {

constexpr Duration kPatient = seconds(120);

class AdviserTest : public testing::Test {
 public:
  ~AdviserTest() override { std::filesystem::remove_all(folder_); }

 protected:
  AdviserTest() {
    std::string name = (std::filesystem::temp_directory_path() / "laneway-adviser-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ::setenv("PYTHONPATH", LANEWAY_PYTHON_FOLDER, 1);
  }

  // The file of a class whose functions these lines are.
  std::string program(const std::string& functions) {
    std::string file = (folder_ / "mine.py").string();
    std::ofstream(file) << "#!/usr/bin/env python3\nimport os, signal\nfrom laneway import policy\n"
                        << "class Mine(policy.Policy):\n"
                        << functions << "\npolicy.main(Mine)\n";
    EXPECT_EQ(::chmod(file.c_str(), 0700), 0);
    return file;
  }
  // A job of 10 s at 0, one of 5 s at 1, one of 1 s at 2; iterations take 0.1 s.
  Status simulate(const std::string& file, Duration patience = kPatient) {
    SimulatorConfig config;
    config.core.capacity = gib(1024);
    config.core.set_lanes(1, 1);
    config.core.check_every = 1;
    config.policy = file + ":age=off:key=value";
    simulator_ = std::make_unique<Simulator>(config);
    auto adviser = Adviser::start(*policies::plugin_of(config.policy), /*seed=*/1, patience);
    if (!adviser) return adviser.error();
    simulator_->set_adviser(std::move(adviser).value());
    for (const int64_t length : {100, 50, 10}) {
      SimJob job;
      job.submit = TimePoint(seconds(static_cast<int64_t>(simulator_->jobs())).ns());
      job.iterations = job.options.total_iterations = static_cast<uint64_t>(length);
      job.iteration = job.estimate = milliseconds(100);
      simulator_->add(job);
    }
    return simulator_->run();
  }
  double ended_s(size_t job) const {
    return (simulator_->result(job).ended - TimePoint()).seconds();
  }
  std::string why_not(const std::string& functions, Duration patience = kPatient) {
    const Status status = simulate(program(functions), patience);
    return status ? "" : status.error().message;
  }

  std::filesystem::path folder_;
  std::unique_ptr<Simulator> simulator_;
};

constexpr double kAnIteration = 0.101;

TEST_F(AdviserTest, TheOrderIsThePrograms) {
  const Status status = simulate(program("  def rank(self, job, now): return -job.arrival"));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_NEAR(ended_s(2), 3, kAnIteration);
  EXPECT_NEAR(ended_s(1), 7, kAnIteration);
  EXPECT_NEAR(ended_s(0), 16, kAnIteration);
}

TEST_F(AdviserTest, ItIsWokenWhenItWantsToBe) {
  const Status status = simulate(
      program("  def rank(self, job, now): return -job.arrival if now >= 5 else job.arrival\n"
              "  def wakes_at(self, now): return 5 if now < 5 else None"));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_NEAR(ended_s(2), 6, kAnIteration);
  EXPECT_NEAR(ended_s(1), 11, kAnIteration);
  EXPECT_NEAR(ended_s(0), 16, kAnIteration);
}

TEST_F(AdviserTest, WhatGoesWrongIsSaidWithTheFile) {
  const std::string begin = "policy " + (folder_ / "mine.py").string() + ": ";
  EXPECT_EQ(why_not("  def rank(self, job, now): os._exit(7)"),
            begin + "it ended with exit code 7");
  EXPECT_EQ(why_not("  def rank(self, job, now): os.kill(os.getpid(), signal.SIGKILL)"),
            begin + "signal 9 (Killed) ended it");
  EXPECT_EQ(why_not("  def __init__(self, options):\n"
                    "    assert options == {'key': 'value'}\n    os._exit(5)"),
            begin + "it ended with exit code 5");
  EXPECT_EQ(why_not("  def rank(self, job, now): os.write(3, bytes(4))"),
            begin +
                "it wrote a frame of 0 bytes to descriptor 3; they have 1 to 65536: leave "
                "descriptor 3 to laneway.policy or laneway_policy.hpp");
}

TEST_F(AdviserTest, WhoeverDoesNotAnswerIsGivenUp) {
  const std::string said = why_not("  def rank(self, job, now): signal.pause()", milliseconds(1));
  EXPECT_NE(said.find("did not answer within 0.001 s"), std::string::npos) << said;
}

TEST_F(AdviserTest, AFileThatIsNotThereIsSaid) {
  const Status status = simulate((folder_ / "none").string());
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace laneway::simulator
