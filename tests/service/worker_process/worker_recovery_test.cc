// Shows that a worker may die at any step of anything: its successor, over the same pool, journal
// and rings, leads to the same bits as a run that nobody disturbed, random draws included. Where
// nothing could be kept for it, a job whose state was being written ends with a sentence, and no
// other does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ostream>

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

// Where a worker dies, and perhaps the one that follows it; how states are kept.
struct Death {
  const char* point;
  const char* next = "";
  const char* recovery = "undo";
  bool own_pool = false;
};

std::string points(const std::string& names) { return names.empty() ? "" : "worker." + names; }

void PrintTo(const Death& death, std::ostream* out) {
  *out << death.point << " " << death.next << " " << death.recovery;
}

class WorkerDies : public ::testing::TestWithParam<Death> {};

TEST_P(WorkerDies, AndTheNextOneGoesOn) {
  static const Seen expected = undisturbed();
  const Death& death = GetParam();
  ASSERT_FALSE(expected.error);
  ASSERT_EQ(expected.outputs[3], expected.outputs[4]) << "the generator was put back";
  WorkerRig rig(WorkerRig::Recovery{.wanted = death.recovery, .own_pool = death.own_pool});
  rig.start(points(death.point));
  rig.follow_dead_workers(points(death.next));
  ProcessJob job(rig, noisy("disturbed"));
  ProcessJob bystander(rig, noisy("bystander"));
  ProcessClient client(job);
  ProcessClient other(bystander);
  const Seen seen = play(client);
  const Seen seen_by_other = play(other);
  EXPECT_EQ(rig.deaths(), *death.next == 0 ? 1 : 2) << "every point was passed";
  for (const Seen* one : {&seen, &seen_by_other}) {
    ASSERT_FALSE(one->error) << one->error->message;
    EXPECT_EQ(one->outputs, expected.outputs);
    EXPECT_EQ(one->state, expected.state);
    EXPECT_EQ(one->random, expected.random);
  }
}

std::string name_of(const ::testing::TestParamInfo<Death>& tested) {
  std::string name = std::string(tested.param.point) + "_" + tested.param.next + "_" +
                     tested.param.recovery + (tested.param.own_pool ? "_own" : "");
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AtEachStep, WorkerDies,
                         ::testing::Values(Death{"image_written:1"}, Death{"image_placed:2"},
                                           Death{"submission_taken:2"}, Death{"submission_taken:9"},
                                           Death{"iteration_begun:1"}, Death{"iteration_begun:8"},
                                           Death{"commit_entered:1"}, Death{"commit_entered:6"},
                                           Death{"slot_written:2"}, Death{"commit_written:1"},
                                           Death{"commit_written:7"}, Death{"done_published:3"},
                                           Death{"done_published:10"}, Death{"write_begun:1"},
                                           Death{"state_written:1"}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(WhileItUndoes, WorkerDies,
                         ::testing::Values(Death{"range_copied:1"}, Death{"range_copied:4"},
                                           Death{"range_saved:1"}, Death{"range_saved:5"},
                                           Death{"range_saved:3", "range_restored:1"},
                                           Death{"slot_written:5", "range_restored:1"},
                                           Death{"slot_written:5", "state_restored:1"},
                                           Death{"range_saved:6", "commit_entered:1"},
                                           Death{"range_saved:6", "range_saved:1"}),
                         name_of);

constexpr const char* kOften = "snapshot:1";
constexpr const char* kSometimes = "snapshot:3";
constexpr const char* kOnce = "snapshot:100";
INSTANTIATE_TEST_SUITE_P(
    WithSnapshots, WorkerDies,
    ::testing::Values(
        Death{"snapshot_part:1", "", kSometimes}, Death{"snapshot_part:2", "", kSometimes},
        Death{"snapshot_taken:1", "", kSometimes}, Death{"snapshot_taken:2", "", kSometimes},
        Death{"commit_entered:1", "", kSometimes}, Death{"commit_entered:3", "", kSometimes},
        Death{"commit_entered:4", "", kOften}, Death{"commit_entered:7", "", kOnce},
        Death{"request_logged:2", "", kSometimes}, Death{"slot_written:4", "", kSometimes},
        Death{"commit_written:5", "", kOnce}, Death{"state_written:1", "", kSometimes},
        Death{"write_begun:1", "", kOnce}, Death{"commit_entered:3", "snapshot_restored:1", kOnce},
        Death{"commit_entered:3", "request_redone:1", kOnce},
        Death{"slot_written:3", "request_redone:2", kOnce},
        Death{"commit_entered:9", "state_restored:1", kOnce},
        Death{"commit_entered:9", "commit_entered:1", kOnce},
        Death{"commit_entered:3", "snapshot_taken:1", kSometimes},
        Death{"request_logged:3", "request_logged:1", kOnce}),
    name_of);

// As on a device whose memory cannot be shared between processes.
INSTANTIATE_TEST_SUITE_P(
    WithThePool, WorkerDies,
    ::testing::Values(
        Death{"image_written:1", "", "", true}, Death{"snapshot_taken:1", "", "", true},
        Death{"image_placed:1", "", "", true}, Death{"iteration_begun:1", "", "", true},
        Death{"commit_entered:4", "", "", true}, Death{"commit_written:6", "", "", true},
        Death{"done_published:9", "", kOnce, true}, Death{"snapshot_part:4", "", kSometimes, true},
        Death{"snapshot_taken:4", "", kSometimes, true}, Death{"state_written:1", "", "", true},
        Death{"submission_taken:9", "request_redone:2", kOnce, true}),
    name_of);

// Nothing is kept, and so a death in the commit phase costs the job: it says so, and no other does.
TEST(WorkerRecovery, WithoutMemoryForItADeathInTheCommitPhaseEndsTheJob) {
  static const Seen expected = undisturbed();
  WorkerRig rig(WorkerRig::Recovery{.memory = Bytes()});
  rig.start("worker.commit_entered:6");
  rig.follow_dead_workers();
  ProcessJob job(rig, noisy("disturbed"));
  ProcessJob bystander(rig, noisy("bystander"));
  ProcessClient client(job);
  ProcessClient other(bystander);
  const Seen seen = play(client);
  ASSERT_TRUE(seen.error);
  EXPECT_EQ(seen.error->code, ErrorCode::failed);
  EXPECT_THAT(seen.error->message, HasSubstr("was writing the job's state"));
  EXPECT_THAT(seen.error->message, HasSubstr("last state_dict()"));
  rig.until([&] { return rig.gone(job.id()) != nullptr; }, "the end of the job");
  EXPECT_TRUE(rig.gone(job.id())->has_value());
  const Seen seen_by_other = play(other);
  ASSERT_FALSE(seen_by_other.error) << seen_by_other.error->message;
  EXPECT_EQ(seen_by_other.outputs, expected.outputs);
  EXPECT_EQ(seen_by_other.state, expected.state);
}

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

// A guest dies while its bytes are written over the state, and the worker with it: the owner's job
// goes on from the state before that write.
class GuestLeaves : public ::testing::TestWithParam<const char*> {};

TEST_P(GuestLeaves, WhileItsBytesAreWritten) {
  WorkerRig rig;
  rig.start(points(GetParam()));
  ProcessJob job(rig, noisy("half written"));
  ProcessClient owner(job);
  ProcessClient guest(job);
  ASSERT_TRUE(owner.run(1).ok());
  std::vector<std::byte> random;
  const auto state = owner.read_state(&random).value();
  const std::vector<std::byte> zeros(state.size());
  guest.begin_write(zeros);
  rig.until([&] { return rig.deaths() == 1; }, "the worker's death");
  guest.forget();  // its process is gone too
  rig.start();
  std::vector<std::byte> random_after;
  const auto after = owner.read_state(&random_after);
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_EQ(after.value(), state);
  EXPECT_EQ(random_after, random);
  EXPECT_TRUE(owner.run(1).ok());
}

INSTANTIATE_TEST_SUITE_P(AtEachStep, GuestLeaves,
                         ::testing::Values("write_saved", "state_written"));

// state += input, then an operator that fails for an input below zero.
lanes::Graph failing_graph() {
  testing::GraphBuilder b("failing");
  const auto input = b.input({1, 1});
  const auto state = b.slot(0, {1, 1});
  b.write("aten::add_.Tensor", state, {testing::arg(input)});
  const auto root = b.compute("aten::cholesky", {testing::arg(input)}, {1, 1});
  b.output(b.compute("aten::add.Tensor", {testing::arg(state), testing::arg(root)}, {1, 1}));
  return b.finish();
}

// An operator that fails behind the first write costs the iteration, not the job.
class OperatorFails : public ::testing::TestWithParam<const char*> {};

TEST_P(OperatorFails, BehindTheFirstWriteAndTheStateIsAsBefore) {
  WorkerRig rig(WorkerRig::Recovery{.wanted = GetParam()});
  rig.start();
  rig.follow_dead_workers();
  ProcessJob job(rig, {.name = "failing",
                       .user = 1,
                       .slots = testing::adding_slots(1),
                       .graph = failing_graph(),
                       .initial = {}});
  ProcessClient client(job);
  EXPECT_EQ(client.run(4).value(), std::vector<float>{4 + 2});
  EXPECT_EQ(client.run(9).value(), std::vector<float>{13 + 3});
  for (int i = 0; i < 3; ++i) {
    const auto failed = client.run(-1);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(failed.error().message, HasSubstr("cholesky"));
    EXPECT_THAT(failed.error().message, HasSubstr("taken back"));
    EXPECT_EQ(client.run(1).value(), std::vector<float>{14.F + static_cast<float>(i) + 1});
  }
  rig.kill();
  rig.start();
  EXPECT_EQ(client.run(1).value(), std::vector<float>{17 + 1});
}

INSTANTIATE_TEST_SUITE_P(Methods, OperatorFails,
                         ::testing::Values("undo", "snapshot:1", "snapshot:2", "snapshot:100"));

// The job failed there and its client was answered; the worker died before the broker heard of it.
TEST(WorkerRecovery, AJobThatWasSpoiledNeverComesBack) {
  WorkerRig rig(WorkerRig::Recovery{.memory = Bytes()});
  rig.start();
  ProcessJob job(rig, {.name = "failing",
                       .user = 1,
                       .slots = testing::adding_slots(1),
                       .graph = failing_graph(),
                       .initial = {}});
  ProcessClient client(job);
  ASSERT_TRUE(client.run(4).ok());
  const auto failed = client.run(-1);
  ASSERT_FALSE(failed.ok());
  rig.kill();
  rig.start();
  rig.until([&] { return rig.gone(job.id()) != nullptr; }, "the end of the job");
}

TEST(WorkerRecovery, WithoutMemoryForItAGuestThatLeftEndsTheJob) {
  WorkerRig rig(WorkerRig::Recovery{.memory = Bytes()});
  rig.start("worker.write_begun");
  ProcessJob job(rig, noisy("half written"));
  ProcessClient owner(job);
  ProcessClient guest(job);
  ASSERT_TRUE(owner.run(1).ok());
  const auto state = owner.read_state().value();
  guest.begin_write(state);
  rig.until([&] { return rig.deaths() == 1; }, "the worker's death");
  guest.forget();
  rig.start();
  rig.until([&] { return rig.gone(job.id()) != nullptr; }, "the end of the job");
  EXPECT_THAT((*rig.gone(job.id()))->message, HasSubstr("the client is gone"));
  EXPECT_FALSE(owner.ring().check_open());
}

}  // namespace
}  // namespace laneway::service
