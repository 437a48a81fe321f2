// Shows what the broker has a standby prepare: what the active worker has, each thing once, in
// order, and again for each standby; how far it says that a standby is; and that what a standby
// crashed at is left out from then on, unless somebody killed the standby.
#include "service/broker/standbys.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>
#include <string>

#include "service/transport/supervised.h"
#include "service/wire/codec.h"

namespace laneway::service {
namespace {

namespace to_standby = wire::to_standby;

constexpr int32_t kPid = 77;

class StandbysTest : public ::testing::Test {
 protected:
  JobEntry& add_job(uint64_t id, uint32_t graphs = 1) {
    JobEntry entry;
    entry.record.job = id;
    entry.record.record = static_cast<uint32_t>(id);
    for (uint32_t number = 0; number < graphs; ++number) {
      GraphEntry& graph = entry.graphs[number];
      graph.graph = Descriptor(::memfd_create("graph", MFD_CLOEXEC));
      graph.info.emplace();
    }
    entry.added = true;
    return *table_.add(std::move(entry)).value();
  }
  void connect(int32_t pid = kPid) {
    auto ends = Channel::pair();
    standbys_.connect(pid, std::move(ends.value().first));
    standby_ = std::move(ends.value().second);
  }
  // What came since the last time, in words.
  std::vector<std::string> told() {
    std::vector<std::string> lines;
    while (true) {
      auto frame = standby_.receive();
      if (!frame || !frame.value()) return lines;
      const auto decoded = wire::decode<to_standby::Any>(frame.value()->bytes);
      const to_standby::Any& message = decoded.value();
      if (const auto* job = std::get_if<to_standby::PrepareJob>(&message)) {
        lines.push_back("job " + std::to_string(job->job));
        EXPECT_EQ(frame.value()->fds.size(), 1U);
      } else if (const auto* graph = std::get_if<to_standby::PrepareGraph>(&message)) {
        lines.push_back("graph " + std::to_string(graph->job) + "/" +
                        std::to_string(graph->number));
        EXPECT_EQ(frame.value()->fds.size(), 1U);
      } else if (const auto* dropped = std::get_if<to_standby::ForgetGraph>(&message)) {
        lines.push_back("forget " + std::to_string(dropped->job) + "/" +
                        std::to_string(dropped->number));
      } else if (const auto* gone = std::get_if<to_standby::ForgetJob>(&message)) {
        lines.push_back("forget " + std::to_string(gone->job));
      } else {
        lines.emplace_back("settle");
      }
    }
  }
  void answer(uint64_t job, uint32_t number = 0, bool ok = true) {
    wire::from_standby::Prepared done;
    done.job = job;
    done.number = number;
    done.ok = ok;
    ASSERT_TRUE(standby_.send(wire::encode(done)));
    standbys_.serve();
  }
  std::string preparation(int32_t pid = kPid) const {
    const auto told = standbys_.preparation(pid);
    return told ? std::to_string(told->prepared) + " of " + std::to_string(told->jobs) : "none";
  }
  // As waitpid says it.
  static int32_t ended_by(int signal) { return signal; }
  static int32_t exited_with(int code) { return code << 8; }

  using Lines = std::vector<std::string>;
  JobTable table_;
  Standbys standbys_{table_};
  Channel standby_;
};

TEST_F(StandbysTest, IsNamedWhatTheActiveWorkerHasAndEachChange) {
  add_job(1, 2);
  JobEntry& unknown = add_job(2);
  unknown.added = false;
  connect();
  EXPECT_EQ(told(), (Lines{"job 1", "graph 1/1", "settle"}));
  unknown.added = true;
  standbys_.job_added(unknown);
  standbys_.job_added(unknown);  // a new worker has it too
  EXPECT_EQ(told(), (Lines{"job 2"}));
  standbys_.image_placed();
  standbys_.graph_dropped(JobId(1), 1);
  standbys_.graph_dropped(JobId(1), 1);
  standbys_.job_gone(JobId(2));
  standbys_.job_gone(JobId(2));
  EXPECT_EQ(told(), (Lines{"settle", "forget 1/1", "forget 2"}));
}

TEST_F(StandbysTest, AJobIsPreparedWhenAllItsGraphsAre) {
  JobEntry& job = add_job(1, 2);
  add_job(2);
  connect();
  EXPECT_EQ(preparation(), "0 of 2");
  answer(1);
  EXPECT_EQ(preparation(), "0 of 2");
  answer(1, 1);
  EXPECT_EQ(preparation(), "1 of 2");
  answer(2, 0, /*ok=*/false);
  EXPECT_EQ(preparation(), "1 of 2");
  job.graphs[5].graph = Descriptor(::memfd_create("graph", MFD_CLOEXEC));
  job.graphs[5].info.emplace();
  standbys_.graph_added(job, 5);
  EXPECT_EQ(preparation(), "0 of 2");
  answer(1, 5);
  EXPECT_EQ(preparation(), "1 of 2");
  standbys_.activated(kPid);
  EXPECT_EQ(preparation(), "none");
}

TEST_F(StandbysTest, WhatAStandbyCrashedAtIsLeftOut) {
  add_job(1);
  add_job(2, 3);
  connect();
  answer(1);
  answer(2);
  standbys_.died(kPid, ended_by(SIGSEGV));
  EXPECT_EQ(preparation(), "none");
  connect(78);
  EXPECT_EQ(told(), (Lines{"job 1", "job 2", "graph 2/2", "settle"}));
  standbys_.died(78, ended_by(SIGABRT));
  connect(79);
  EXPECT_EQ(told(), (Lines{"job 2", "graph 2/2", "settle"})) << "with all that belongs to job 1";
  EXPECT_EQ(preparation(79), "0 of 2");
}

TEST_F(StandbysTest, AnAnswerThatCameBeforeTheCrashCounts) {
  add_job(1);
  add_job(2);
  connect();
  wire::from_standby::Prepared done;
  done.job = 1;
  ASSERT_TRUE(standby_.send(wire::encode(done)));
  standbys_.died(kPid, ended_by(SIGSEGV));
  connect(78);
  EXPECT_EQ(told(), (Lines{"job 1", "settle"})) << "it died at the second one";
}

TEST_F(StandbysTest, WhatDidNotEndWhenAStandbyWasActivatedIsLeftOutIfItNeverEnds) {
  add_job(1);
  add_job(2);
  connect();
  answer(1);
  standbys_.activated(kPid);  // it is at the second one
  standbys_.died(kPid, exited_with(kExitPreparingHangs));
  connect(78);
  EXPECT_EQ(told(), (Lines{"job 1", "settle"}));
  standbys_.activated(78);  // it is at the first one, which ends soon
  standbys_.died(78, ended_by(SIGSEGV));
  connect(79);
  EXPECT_EQ(told(), (Lines{"job 1", "settle"})) << "it crashed at what an active worker does";
}

TEST_F(StandbysTest, AStandbyThatWasKilledIsNoReasonToLeaveAnythingOut) {
  add_job(1);
  connect();
  standbys_.died(kPid, ended_by(SIGKILL));
  connect(78);
  EXPECT_EQ(told(), (Lines{"job 1", "settle"}));
}

TEST_F(StandbysTest, AnswersThatWereNotAskedForAreNotBelieved) {
  add_job(1);
  connect();
  answer(9);
  EXPECT_EQ(preparation(), "0 of 1");
  EXPECT_FALSE(standby_.send(wire::encode(wire::from_standby::Prepared{.job = 1}))) << "hung up on";
}

}  // namespace
}  // namespace laneway::service
