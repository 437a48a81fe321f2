// Shows that a worker may die at any step of anything: its successor, over the same pool, journal
// and rings, leads to the same bits as a run that nobody disturbed, random draws included; or, if
// the worker died while it wrote a job's state, that job ends with a sentence and no other does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/service/tiny_graphs.h"
#include "tests/service/worker_process/process_client.h"
#include "tests/support/graph_builder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;
using testing::ProcessClient;
using testing::ProcessJob;
using testing::WorkerRig;

constexpr int64_t kCount = 64;

// state += 2 * input + a random mask; output: the state afterwards.
lanes::Graph noisy_graph() {
  testing::GraphBuilder b("noisy");
  const auto input = b.input({kCount});
  const auto state = b.slot(0, {kCount});
  const auto mask = b.compute("aten::empty_like", {testing::arg(input)}, {kCount});
  b.write("aten::bernoulli_.float", mask,
          {testing::arg_real(0.5), testing::keyword("generator", {lanes::GeneratorArgument{}})});
  const auto twice =
      b.compute("aten::mul.Scalar", {testing::arg(input), testing::arg_real(2)}, {kCount});
  b.write("aten::add_.Tensor", state, {testing::arg(twice)});
  b.write("aten::add_.Tensor", state, {testing::arg(mask)});
  b.output(b.compute("aten::clone", {testing::arg(state)}, {kCount}));
  return b.finish();
}

ProcessJob::Form noisy(const std::string& name) {
  std::vector<std::byte> initial(kCount * sizeof(float));
  const float quarter = 0.25F;
  for (size_t i = 0; i < kCount; ++i) {
    std::memcpy(initial.data() + i * sizeof(float), &quarter, sizeof(quarter));
  }
  return {.name = name,
          .user = 1,
          .slots = testing::adding_slots(kCount),
          .graph = noisy_graph(),
          .initial = std::move(initial)};
}

// What a client sees of a run: every output, and the state at the end.
struct Seen {
  std::vector<std::vector<float>> outputs;
  std::vector<std::byte> state;
  std::vector<std::byte> random;
  std::optional<Error> error;  // that ended it
};

// Iterations one by one and several in flight, and the state written and read between them.
Seen play(ProcessClient& client) {
  Seen seen;
  const auto keep = [&](const Result<std::vector<float>>& output) {
    if (output) {
      seen.outputs.push_back(output.value());
    } else {
      seen.error = output.error();
    }
    return output.ok();
  };
  std::vector<std::byte> random;
  for (int i = 0; i < 3; ++i) {
    if (!keep(client.run(1))) return seen;
  }
  const auto state = client.read_state(&random);
  if (!state) {
    seen.error = state.error();
    return seen;
  }
  if (!keep(client.run(2))) return seen;
  // Back to where it was, generator included: the same draw comes again.
  if (Status written = client.write_state(state.value(), random); !written) {
    seen.error = written.error();
    return seen;
  }
  if (!keep(client.run(2))) return seen;
  std::vector<ProcessClient::Handle> pending;
  for (uint32_t i = 0; i < 6; ++i) pending.push_back(client.submit(3, i));
  for (uint32_t i = 0; i < 6; ++i) {
    if (Status done = client.wait(pending[i]); !done) {
      seen.error = done.error();
      return seen;
    }
    seen.outputs.push_back(client.output(i));
  }
  const auto last = client.read_state(&seen.random);
  if (last) {
    seen.state = last.value();
  } else {
    seen.error = last.error();
  }
  return seen;
}

Seen undisturbed() {
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, noisy("undisturbed"));
  ProcessClient client(job);
  return play(client);
}

struct Death {
  const char* point;
  bool in_commit;
};

class WorkerDies : public ::testing::TestWithParam<Death> {};

TEST_P(WorkerDies, AndTheNextOneGoesOn) {
  static const Seen expected = undisturbed();
  ASSERT_FALSE(expected.error);
  ASSERT_EQ(expected.outputs[3], expected.outputs[4]) << "the generator was put back";
  WorkerRig rig;
  rig.start("worker." + std::string(GetParam().point));
  rig.follow_dead_workers();
  ProcessJob job(rig, noisy("disturbed"));
  ProcessJob bystander(rig, noisy("bystander"));
  ProcessClient client(job);
  ProcessClient other(bystander);
  const Seen seen = play(client);
  EXPECT_EQ(rig.deaths(), 1);
  if (GetParam().in_commit) {
    ASSERT_TRUE(seen.error);
    EXPECT_EQ(seen.error->code, ErrorCode::failed);
    EXPECT_THAT(seen.error->message, HasSubstr("was writing the job's state"));
    EXPECT_THAT(seen.error->message, HasSubstr("last state_dict()"));
    rig.until([&] { return rig.gone(job.id()) != nullptr; }, "the end of the job");
    EXPECT_TRUE(rig.gone(job.id())->has_value());
  } else {
    ASSERT_FALSE(seen.error) << seen.error->message;
    EXPECT_EQ(seen.outputs, expected.outputs);
    EXPECT_EQ(seen.state, expected.state);
    EXPECT_EQ(seen.random, expected.random);
  }
  // Nobody else was harmed.
  const Seen seen_by_other = play(other);
  EXPECT_FALSE(seen_by_other.error);
  EXPECT_EQ(seen_by_other.outputs, expected.outputs);
  EXPECT_EQ(seen_by_other.state, expected.state);
}

INSTANTIATE_TEST_SUITE_P(
    AtEachStep, WorkerDies,
    ::testing::Values(Death{"image_written:1", false}, Death{"image_placed:2", false},
                      Death{"submission_taken:2", false}, Death{"submission_taken:9", false},
                      Death{"iteration_begun:1", false}, Death{"iteration_begun:8", false},
                      Death{"commit_entered:1", true}, Death{"commit_entered:6", true},
                      Death{"slot_written:2", true}, Death{"commit_written:1", false},
                      Death{"commit_written:7", false}, Death{"done_published:3", false},
                      Death{"done_published:10", false}, Death{"write_begun:1", false},
                      Death{"state_written:1", false}),
    [](const auto& tested) {
      std::string name = tested.param.point;
      std::replace(name.begin(), name.end(), ':', '_');
      return name;
    });

TEST(WorkerRecovery, KilledAgainAndAgainWhileClientsRun) {
  static const Seen expected = undisturbed();
  WorkerRig rig;
  rig.start();
  ProcessJob job(rig, noisy("disturbed"));
  ProcessClient client(job);
  Seen seen = play(client);
  ASSERT_FALSE(seen.error);
  EXPECT_EQ(seen.state, expected.state);
  // Between iterations nothing is ever lost.
  for (int round = 0; round < 4; ++round) {
    rig.kill();
    rig.start();
    std::vector<std::byte> random;
    EXPECT_EQ(client.read_state(&random).value(), seen.state);
    EXPECT_EQ(random, seen.random);
    ASSERT_TRUE(client.run(1).ok());
    seen.state = client.read_state(&seen.random).value();
  }
}

TEST(WorkerRecovery, AClientThatLeftWhileItsBytesWereWrittenEndsTheJob) {
  WorkerRig rig;
  rig.start("worker.write_begun");
  ProcessJob job(rig, noisy("half written"));
  ProcessClient owner(job);
  ProcessClient guest(job);
  ASSERT_TRUE(owner.run(1).ok());
  const auto state = owner.read_state().value();
  guest.begin_write(state);
  rig.until([&] { return rig.deaths() == 1; }, "the worker's death");
  guest.forget();  // its process is gone too
  rig.start();
  rig.until([&] { return rig.gone(job.id()) != nullptr; }, "the end of the job");
  EXPECT_THAT((*rig.gone(job.id()))->message, HasSubstr("the client is gone"));
  EXPECT_FALSE(owner.ring().check_open());
}

}  // namespace
}  // namespace laneway::service
