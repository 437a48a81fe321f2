// Shows that the status document has the form that scripts rely on, with the core's numbers and the
// service's facts where they belong, and null for what is not known.
#include "service/status/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "lanes/core/scheduler.h"
#include "policies/fifo.h"

namespace laneway::service {
namespace {

using nlohmann::json;

class StatusTest : public testing::Test {
 protected:
  StatusTest() {
    lanes::SchedulerConfig config;
    config.capacity = Bytes(6400);
    core_ = std::make_unique<lanes::Scheduler>(config, std::make_unique<policies::Fifo>());
    facts_.pid = 77;
    facts_.version = "1.2.3";
    facts_.device = "host";
    facts_.kernels = "cpu";
    facts_.user = "owner";
    facts_.uptime_s = 2.5;
    facts_.pool_made = Bytes(12800);
  }
  void offer(uint64_t id, int64_t persistent, int64_t ephemeral) {
    lanes::JobOffered job;
    job.job = JobId(id);
    job.options.name = "job" + std::to_string(id);
    job.options.job_class = JobClass::inference;
    job.persistent = Bytes(persistent);
    job.ephemeral = Bytes(ephemeral);
    core_->handle(TimePoint(), job);
  }
  json document() { return json::parse(status_json(facts_, core_->snapshot())); }

  std::unique_ptr<lanes::Scheduler> core_;
  wire::ServiceFacts facts_;
};

TEST_F(StatusTest, HasTheServiceItsWorkersAndThePoolsArithmetic) {
  facts_.workers = {{81, "active", "ready", {}, {}, {.built = "2.11.0", .running = "2.11.1"}},
                    {82, "standby", "ready", 3, 2, {}}};
  offer(1, 640, 1280);
  const json status = document();
  EXPECT_EQ(status["service"], json::parse(R"({"pid": 77, "version": "1.2.3", "device": "host",
                                               "kernels": "cpu", "policy": "fifo",
                                               "uptime_s": 2.5, "policy_process": null})"));
  EXPECT_EQ(status["workers"], json::parse(R"([{"pid": 81, "role": "active", "state": "ready",
                             "jobs_to_prepare": null, "jobs_prepared": null,
                             "torch": {"built": "2.11.0", "running": "2.11.1"}},
                            {"pid": 82, "role": "standby", "state": "ready",
                             "jobs_to_prepare": 3, "jobs_prepared": 2,
                             "torch": {"built": null, "running": null}}])"));
  EXPECT_EQ(status["pool"], json::parse(R"({"capacity_bytes": 6400, "wanted_bytes": 6400,
      "made_bytes": 12800, "persistent_bytes": 640,
      "region_bytes": 1280, "other_bytes": 0, "reserve_bytes": 0, "free_bytes": 4480})"));
  EXPECT_EQ(status["recovery"], nullptr) << "there is none";
  facts_.recovery = {.capacity = mib(64), .used = mib(3)};
  EXPECT_EQ(document()["recovery"],
            json::parse(R"({"capacity_bytes": 67108864, "used_bytes": 3145728})"));
  EXPECT_EQ(status["regions"], json::parse(R"([{"id": 1, "bytes": 1280, "lanes": [1]}])"));
  EXPECT_EQ(status["lanes"],
            json::parse(R"([{"id": 1, "region": 1, "jobs": [1], "running": null}])"));
  EXPECT_EQ(status["lane_limit"], nullptr) << "this core measures none";
  int64_t mapped = 0;
  for (const json& piece : status["map"]) mapped += piece["bytes"].get<int64_t>();
  EXPECT_EQ(mapped, 6400);
}

TEST_F(StatusTest, SaysInHowManyLanesJobsComputeByMeasure) {
  lanes::SchedulerConfig config;
  config.capacity = Bytes(6400);
  config.set_lanes(/*asked=*/0, /*processors=*/3);
  core_ = std::make_unique<lanes::Scheduler>(config, std::make_unique<policies::Fifo>());
  EXPECT_EQ(document()["lane_limit"], json::parse(R"({"lanes": 3, "trial": false})"));
}

TEST_F(StatusTest, SaysOfEachJobWhoseItIsAndWhyAndHowLongItWaits) {
  offer(1, 3200, 1280);
  offer(2, 3200, 1280);
  offer(3, 64, 64);
  facts_.jobs = {{.job = JobId(2), .user = "somebody", .client_torch = "2.15.0+cu132"}};
  const json jobs = document()["jobs"];
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0]["user"], "owner");
  EXPECT_EQ(jobs[0]["class"], "inference");
  EXPECT_EQ(jobs[0]["state"], "staged");
  EXPECT_EQ(jobs[0]["lane"], 1);
  EXPECT_EQ(jobs[0]["reason"], nullptr);
  EXPECT_EQ(jobs[0]["position"], nullptr);
  EXPECT_EQ(jobs[0]["wait_estimate_s"], nullptr);
  EXPECT_EQ(jobs[0]["client_torch"], nullptr);
  EXPECT_EQ(jobs[1]["user"], "somebody");
  EXPECT_EQ(jobs[1]["client_torch"], "2.15.0+cu132");
  EXPECT_EQ(jobs[1]["lane"], nullptr);
  EXPECT_EQ(jobs[1]["position"], 1);
  EXPECT_EQ(jobs[1]["reason"]["code"], "pool_full");
  EXPECT_EQ(jobs[1]["reason"]["numbers"]["claimed_bytes"], 3200 + 1280);
  EXPECT_EQ(jobs[2]["position"], 2);
  EXPECT_EQ(jobs[2]["wait_estimate_s"], nullptr) << "nobody said when job 1 ends";
}

TEST_F(StatusTest, SaysOfAJobThatIsAwayThatItComesBack) {
  offer(1, 3200, 1280);
  offer(2, 3200, 1280);
  lanes::Snapshot snapshot = core_->snapshot();
  const auto text = [&] {
    return json::parse(status_json(facts_, snapshot))["jobs"][1]["reason"]["text"]
        .get<std::string>();
  };
  EXPECT_EQ(text().find("comes back"), std::string::npos) << "it was never in";
  snapshot.jobs[1].state = lanes::JobState::away;
  EXPECT_NE(text().find("comes back when others have had their time"), std::string::npos);
}

TEST_F(StatusTest, SaysWhatAJobsClientDeclared) {
  offer(1, 640, 640);
  lanes::JobOffered job;
  job.job = JobId(2);
  job.options.priority = -3;
  job.options.weight = 2.5;
  job.options.total_iterations = 1000;
  job.options.deadline = seconds(30);
  job.persistent = job.ephemeral = Bytes(640);
  core_->handle(TimePoint(seconds(10).ns()), job);
  lanes::Snapshot snapshot = core_->snapshot();
  snapshot.now = TimePoint(seconds(45).ns());
  const json jobs = json::parse(status_json(facts_, snapshot))["jobs"];
  for (const char* unknown : {"total_iterations", "deadline_s", "deadline_left_s"}) {
    EXPECT_EQ(jobs[0][unknown], nullptr) << unknown;
  }
  EXPECT_EQ(jobs[1]["priority"], -3);
  EXPECT_EQ(jobs[1]["weight"], 2.5);
  EXPECT_EQ(jobs[1]["total_iterations"], 1000);
  EXPECT_EQ(jobs[1]["deadline_s"], 30.0);
  EXPECT_EQ(jobs[1]["deadline_left_s"], -5.0) << "it should have been done";
}

TEST_F(StatusTest, SaysSinceWhenAndBehindWhomAJobWaits) {
  lanes::SchedulerConfig one_lane;
  one_lane.capacity = Bytes(6400);
  one_lane.max_lanes = 1;
  core_ = std::make_unique<lanes::Scheduler>(one_lane, std::make_unique<policies::Fifo>());
  for (const uint64_t id : {1, 2}) {
    offer(id, 640, 640);
    core_->handle(TimePoint(), lanes::ImagePlaced{JobId(id)});
    core_->handle(TimePoint(seconds(4).ns()), lanes::WorkReady{JobId(id)});
  }
  lanes::Snapshot snapshot = core_->snapshot();
  snapshot.now = TimePoint(seconds(9).ns());
  const json jobs = json::parse(status_json(facts_, snapshot))["jobs"];
  EXPECT_EQ(jobs[0]["state"], "running");
  EXPECT_EQ(jobs[0]["reason"], nullptr);
  EXPECT_EQ(jobs[0]["waiting_s"], nullptr);
  EXPECT_EQ(jobs[1]["state"], "resident");
  EXPECT_EQ(jobs[1]["reason"]["code"], "waits_turn");
  EXPECT_EQ(jobs[1]["reason"]["numbers"]["lane"], 1);
  EXPECT_EQ(jobs[1]["reason"]["numbers"]["behind_job"], 1);
  EXPECT_EQ(jobs[1]["waiting_s"], 5.0);
  snapshot.jobs[1].first_iteration = TimePoint(seconds(5).ns());
  for (lanes::JobStatus& job : snapshot.jobs) job.last_iteration = TimePoint(seconds(7).ns());
  const json ran = json::parse(status_json(facts_, snapshot))["jobs"];
  EXPECT_EQ(ran[0]["since_first_iteration_s"], nullptr) << "not known";
  EXPECT_EQ(ran[0]["since_last_iteration_s"], nullptr) << "its turn is open";
  EXPECT_EQ(ran[1]["since_first_iteration_s"], 4.0);
  EXPECT_EQ(ran[1]["since_last_iteration_s"], 2.0);
}

TEST_F(StatusTest, SaysWhatWasCounted) {
  offer(1, 64'000, 640);
  EXPECT_EQ(document()["counters"],
            json::parse(R"({"turns": 0, "evictions": {"store": 0, "spill": 0},
      "returns": {"store": 0, "spill": 0}, "moved_bytes": {"out": 0, "in": 0, "inside": 0},
      "refusals": {"larger_than_pool": 1}, "deaths": null, "lost_records": null})"));
  facts_.counters = {.active_deaths = 2, .broker_deaths = 1, .lost_records = 7};
  EXPECT_EQ(document()["counters"]["deaths"],
            json::parse(R"({"active": 2, "standby": 0, "policy": 0, "broker": 1})"));
  EXPECT_EQ(document()["counters"]["lost_records"], 7);
}

TEST_F(StatusTest, SaysWhichLimitsThereAreAndHowMuchOfEachIsUsedByWhom) {
  EXPECT_EQ(document()["limits"], json::array()) << "one process has all";
  facts_.limits = {{.name = "jobs",
                    .used = 5,
                    .limit = 4096,
                    .per_user = 1024,
                    .of_operators = 16,
                    .users = {{"ann", 3}, {"bob", 2}}},
                   {.name = "graph_bytes", .key = "graph-memory"}};
  EXPECT_EQ(document()["limits"], json::parse(R"([
      {"name": "jobs", "used": 5, "limit": 4096, "user_limit": 1024, "of_operators": 16,
       "key": null, "users": [{"user": "ann", "used": 3}, {"user": "bob", "used": 2}]},
      {"name": "graph_bytes", "used": null, "limit": null, "user_limit": null, "of_operators": 0,
       "key": "graph-memory", "users": []}])"));
}

TEST_F(StatusTest, TheLineOfOneJobIsThatOfTheDocument) {
  offer(1, 640, 640);
  const wire::JobFacts facts{.job = JobId(1), .user = "owner"};
  EXPECT_EQ(json::parse(job_line_json(core_->snapshot(), JobId(1), facts)), document()["jobs"][0]);
  EXPECT_EQ(job_line_json(core_->snapshot(), JobId(9), facts), "null");
}

}  // namespace
}  // namespace laneway::service
