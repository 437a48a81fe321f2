// Shows that a worker may die at any step of anything: its successor, over the same pool, journal
// and rings, leads to the same bits as a run that nobody disturbed, random draws included.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>

#include "tests/service/tiny_graphs.h"
#include "tests/service/worker_process/noisy_job.h"
#include "tests/support/graph_builder.h"

namespace laneway::service {
namespace {

using ::testing::HasSubstr;
using testing::noisy;
using testing::play;
using testing::ProcessClient;
using testing::ProcessJob;
using testing::Seen;
using testing::undisturbed;
using testing::WorkerRig;

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

// The job failed there and its client was answered; the worker died before the broker heard of it,
// while the journal said that the job is spoiled (mostly), or when it said that the job is over.
class SpoiledJob : public ::testing::TestWithParam<const char*> {};

TEST_P(SpoiledJob, NeverComesBack) {
  WorkerRig rig(WorkerRig::Recovery{.memory = Bytes()});
  rig.start(points(GetParam()));
  ProcessJob job(rig, {.name = "failing",
                       .user = 1,
                       .slots = testing::adding_slots(1),
                       .graph = failing_graph(),
                       .initial = {}});
  ProcessClient client(job);
  ASSERT_TRUE(client.run(4).ok());
  const auto failed = client.run(-1);
  ASSERT_FALSE(failed.ok());
  const bool dies_there = *GetParam() != 0;
  if (dies_there) {
    rig.until([&] { return rig.deaths() == 1; }, "the worker's death");
    ASSERT_EQ(rig.gone(job.id()), nullptr);
  } else {
    rig.kill();
  }
  rig.start();
  rig.until([&] { return rig.gone(job.id()) != nullptr; }, "the end of the job");
}

INSTANTIATE_TEST_SUITE_P(WorkerRecovery, SpoiledJob, ::testing::Values("", "job_ended"));

}  // namespace
}  // namespace laneway::service
