// Shows that the document that a client makes of what the broker sent it is the same, byte for
// byte, as the one that the broker itself made before it sent rows (document.json, of this very
// service). That no field is lost on the way is shown for all messages in
// tests/service/wire/codec_test.cc.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "lanes/core/scheduler.h"
#include "policies/registry.h"
#include "service/status/status.h"
#include "service/wire/client_replies.h"
#include "service/wire/codec.h"

namespace laneway::service {
namespace {

// A core in one lane: of five jobs one was cancelled, one runs, one waits for its turn, one for
// room and one behind that.
class FiveJobs {
 public:
  FiveJobs() : core_(config(), policies::make_policy("srtf").value()) {
    for (const uint64_t id : {1, 2, 3}) {
      lanes::JobOffered job = offer(id, id == 3 ? 2560 : 640);
      if (id == 2) job.options.deadline = seconds(30);
      tell(job);
      tell(lanes::ImagePlaced{JobId(id)});
    }
    tell(lanes::WorkReady{JobId(3)});
    lanes::TurnEnded ended;
    ended.turn = turn_;
    ended.iterations = 40;
    ended.busy = milliseconds(400);
    ended.more_ready = true;
    tell(ended);
    tell(lanes::WorkReady{JobId(2)});
    tell(lanes::JobEnded{.job = JobId(1), .cancelled = true});
    tell(offer(4, 3200));
    tell(offer(5, 640));
  }
  wire::StatusReply status() const {
    wire::StatusReply reply{.service = facts(), .core = core_.snapshot()};
    reply.core.now = TimePoint(seconds(9).ns());
    for (const lanes::JobStatus& job : reply.core.jobs) {
      wire::JobFacts line{.job = job.id, .user = "user" + std::to_string(job.id.value())};
      if (job.id == JobId(2)) line.blame = "a signal";
      line.moved = Bytes(64 * static_cast<int64_t>(job.id.value()));
      if (job.id != JobId(3)) line.client_torch = "2.15.0";
      reply.service.jobs.push_back(line);
    }
    return reply;
  }

 private:
  static lanes::SchedulerConfig config() {
    lanes::SchedulerConfig config;
    config.capacity = Bytes(6400);
    config.store = Bytes(12800);
    config.max_lanes = 1;
    return config;
  }
  static wire::ServiceFacts facts() {
    return {.pid = 77,
            .version = "1.2.3",
            .device = "host",
            .kernels = "cpu",
            .user = "owner",
            .uptime_s = 2.5,
            .pool_made = Bytes(12800),
            .policy_process =
                wire::PolicyProcessFacts{.is_running = true, .pid = 55, .reason = "it was late"},
            .recovery = wire::RecoveryFacts{.capacity = mib(64), .used = mib(3)},
            .workers = {{81, "active", "ready", {}, {}, {.built = "2.11.0", .running = "2.11.1"}},
                        {82, "standby", "starting", 3, 2, {}}}};
  }
  static lanes::JobOffered offer(uint64_t id, int64_t persistent) {
    lanes::JobOffered job;
    job.job = JobId(id);
    job.options.name = "job " + std::to_string(id) + " \"<\n\xc3\xa9";
    job.options.priority = static_cast<int32_t>(id);
    job.options.total_iterations = 100;
    job.persistent = Bytes(persistent);
    job.ephemeral = Bytes(640);
    return job;
  }
  void tell(const lanes::Event& event) {
    for (const lanes::Action& action : core_.handle(now_, event)) {
      if (const auto* grant = std::get_if<lanes::GrantTurn>(&action)) turn_ = grant->turn.id;
    }
    now_ = now_ + milliseconds(250);
  }

  lanes::Scheduler core_;
  TimePoint now_ = TimePoint(seconds(1).ns());
  TurnId turn_;
};

TEST(StatusDocument, IsWhatTheBrokerMadeItself) {
  std::ifstream file(LANEWAY_STATUS_DOCUMENT);
  ASSERT_TRUE(file.good()) << LANEWAY_STATUS_DOCUMENT;
  const auto known = nlohmann::ordered_json::parse(file);
  const auto sent =
      wire::decode_message<wire::StatusReply>(wire::encode(FiveJobs().status())).value();
  EXPECT_EQ(status_json(sent.service, sent.core), known.dump());
}

}  // namespace
}  // namespace laneway::service
