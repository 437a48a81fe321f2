// Shows what a worker's death costs where nothing could be kept for its successor, or not enough:
// the job whose state was being written, which is told so; no other. And that what was kept is the
// service's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "service/journal/recovery_memory.h"
#include "tests/service/worker_process/noisy_job.h"

namespace laneway::service {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::noisy;
using testing::play;
using testing::ProcessClient;
using testing::ProcessJob;
using testing::Seen;
using testing::undisturbed;
using testing::WorkerRig;

// Nothing is kept, and so a death in the commit phase costs the job: it says so, and no other does.
TEST(RecoveryLimits, WithoutMemoryForItADeathInTheCommitPhaseEndsTheJob) {
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

// Each way needs more than is left: the job runs on, its report says why nothing is kept, and a
// death in its commit phase costs it and nobody else.
class MemoryIsExhausted : public ::testing::TestWithParam<const char*> {};

TEST_P(MemoryIsExhausted, AndTheJobRunsOnAndSaysSo) {
  static const Seen expected = undisturbed();
  WorkerRig rig(WorkerRig::Recovery{.memory = RecoveryMemory::kSmallest, .wanted = GetParam()});
  rig.start();
  ProcessJob small(rig, noisy("small"));
  ProcessJob large(rig, noisy("large", size_t{512} << 10));
  ProcessClient client(small);
  ProcessClient other(large);
  ASSERT_TRUE(other.run(1).ok());
  wire::to_worker::JobReport question;
  question.job = large.id().value();
  const auto answer = rig.ask(question);
  EXPECT_THAT(std::get<wire::from_worker::JobText>(answer).text,
              AllOf(HasSubstr("\"method\":\"none\""), HasSubstr("--recovery-memory")));
  const auto before = other.read_state().value();
  rig.kill();
  rig.start("worker.commit_entered:2");
  EXPECT_EQ(other.read_state().value(), before) << "it was not writing";
  rig.follow_dead_workers();
  ASSERT_TRUE(other.run(1).ok());
  const auto lost = other.run(1);
  ASSERT_FALSE(lost.ok());
  EXPECT_THAT(lost.error().message, HasSubstr("was writing the job's state"));
  const Seen seen = play(client);
  ASSERT_FALSE(seen.error) << seen.error->message;
  EXPECT_EQ(seen.outputs, expected.outputs);
  EXPECT_EQ(seen.state, expected.state);
}

INSTANTIATE_TEST_SUITE_P(Methods, MemoryIsExhausted, ::testing::Values("", "undo", "snapshot:3"));

// A log for as many iterations would take all of the memory, in which a snapshot lies already: as
// on a machine so busy that snapshots seem to cost much.
TEST(RecoveryLimits, ALogThatFindsNoRoomAtItsLongestIsShorter) {
  static const Seen expected = undisturbed();
  WorkerRig rig(WorkerRig::Recovery{.wanted = "snapshot:1000000", .own_pool = true});
  rig.start("worker.commit_written:6");
  rig.follow_dead_workers();
  ProcessJob job(rig, noisy("disturbed"));
  ProcessClient client(job);
  const Seen seen = play(client);
  ASSERT_FALSE(seen.error) << seen.error->message;
  EXPECT_EQ(rig.deaths(), 1);
  EXPECT_EQ(seen.outputs, expected.outputs);
  EXPECT_EQ(seen.state, expected.state);
}

// What a client does to its inputs behind the answer is none of the replay's business.
TEST(RecoveryLimits, AClientThatChangesItsInputsBehindTheAnswerChangesNothing) {
  WorkerRig rig(WorkerRig::Recovery{.wanted = "snapshot:100"});
  rig.start();
  ProcessJob job(rig, noisy("replayed"));
  ProcessClient client(job);
  for (const float value : {1.F, 5.F, 7.F}) ASSERT_TRUE(client.run(value).ok());
  std::vector<std::byte> random;
  const auto state = client.read_state(&random).value();
  const service::BlockLayout layout = wire::block_layout(job.graph());
  std::memset(client.segment(), 0xee, layout.stride);
  const auto output = client.output();
  // Killed in the commit phase of the next one, whose inputs are in another block.
  rig.kill();
  rig.start("worker.commit_entered:1");
  rig.follow_dead_workers();
  ASSERT_TRUE(client.wait(client.submit(9, 1)).ok());
  EXPECT_EQ(rig.deaths(), 2);
  const std::vector<float> after = client.output(1);
  const auto* former = reinterpret_cast<const float*>(state.data());
  for (size_t i = 0; i < testing::kNoisyCount; ++i) {
    EXPECT_TRUE(after[i] == former[i] + 18 || after[i] == former[i] + 19) << "with its mask";
  }
  EXPECT_EQ(client.output(), output) << "nobody is answered again";
}

TEST(RecoveryLimits, WithoutMemoryForItAGuestThatLeftEndsTheJob) {
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
