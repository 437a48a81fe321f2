// Shows what a lane does with iterations whose device runs behind, on a host whose enqueued
// iterations are retired when the test says so: they are enqueued one behind the other and are
// answered in their order when they retire; whatever else wants the job waits for all of them; and
// a device that fails ends the jobs with its words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "adaptor/device/limits.h"
#include "lanes/graph/graph_codec.h"
#include "tests/service/enqueue_rig.h"
#include "tests/service/journal/journal_file.h"
#include "tests/service/tiny_graphs.h"

namespace laneway::service {
namespace {

using testing::EnqueueService;
using ::testing::HasSubstr;
using testing::JournalFile;
using testing::output_of;

using Pending = std::shared_ptr<Work>;

bool is_done(const Pending& work) { return work->wait(Duration()).has_value(); }

// The first iteration teaches the lane its need, which ends its turn; from the second on they fly.
void settle_in(EnqueueService& service, const JobHandle& job) {
  for (int i = 0; i < 2; ++i) {
    const Pending work = service.submit(job, 0);
    service.sky().retire_one();
    ASSERT_TRUE(output_of(work));
  }
}

TEST(WorkerEnqueued, AreEnqueuedOneBehindTheOtherAndAreAnsweredInOrder) {
  EnqueueService service;
  const JobHandle job = service.add_job("flier");
  settle_in(service, job);
  std::vector<Pending> pending;
  for (int i = 0; i < 6; ++i) pending.push_back(service.submit(job, 1));
  service.sky().wait_for(limits::kMaxEnqueued);
  for (const Pending& work : pending) EXPECT_FALSE(is_done(work)) << "nothing has retired";
  float expected = 0;
  for (size_t i = 0; i < pending.size(); ++i) {
    service.sky().retire_one();
    expected += 2;
    EXPECT_EQ(output_of(pending[i]).value(), expected);
    EXPECT_EQ(i + 1, pending.size() - static_cast<size_t>(std::count_if(
                                          pending.begin(), pending.end(),
                                          [](const Pending& work) { return !is_done(work); })));
  }
  EXPECT_EQ(service.sky().most(), limits::kMaxEnqueued);
}

// As a request of another process: notes what it is told.
class Journalled final : public Work {
 public:
  Journalled(EnqueueService& service, const JobHandle& job, const lanes::InputView& input,
             std::vector<std::string>& notes)
      : Work(service.worker().find_graph(*job, 0).value(), {&input, 1}), notes_(notes) {}
  bool is_journalled() const override { return true; }
  bool uses_job() const override { return true; }
  void enter_commit() override { notes_.push_back("commit"); }
  void enqueued() override { notes_.push_back("was enqueued"); }
  void complete(Status status, Duration took, bool spoiled) override {
    notes_.push_back("answer");
    Work::complete(std::move(status), took, spoiled);
  }

 private:
  std::vector<std::string>& notes_;  // by the lane's thread
};

TEST(WorkerEnqueued, OfAJournalWriteOneAfterTheOther) {
  EnqueueService service;
  const JobHandle job = service.add_job("flier");
  settle_in(service, job);
  const std::vector<float> input(EnqueueService::kCount, 1);
  const lanes::InputView view{.data = input.data(), .bytes = input.size() * sizeof(float)};
  std::vector<std::string> notes;
  std::vector<Pending> pending;
  for (int i = 0; i < 3; ++i) {
    pending.push_back(std::make_shared<Journalled>(service, job, view, notes));
    ASSERT_TRUE(service.worker().submit(job, pending.back()));
  }
  for (int i = 0; i < 3; ++i) service.sky().retire_one();
  EXPECT_EQ(output_of(pending[2]).value(), 6);
  // One that is complete when it was enqueued is answered at once.
  std::erase(notes, "was enqueued");
  const std::vector<std::string> expected = {"commit", "answer", "commit",
                                             "answer", "commit", "answer"};
  EXPECT_EQ(notes, expected) << "the next one's first write waits for the answer";
  EXPECT_EQ(service.sky().most(), 1U);
}

TEST(WorkerEnqueued, LandAllBeforeTheStateIsRead) {
  EnqueueService service;
  const JobHandle job = service.add_job("flier");
  settle_in(service, job);
  std::vector<Pending> pending;
  for (int i = 0; i < 3; ++i) pending.push_back(service.submit(job, 1));
  service.sky().wait_for(3);
  float state = 0;
  const Pending read = service.read(job, &state);
  const Pending behind = service.submit(job, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(is_done(read));
    EXPECT_FALSE(is_done(pending[static_cast<size_t>(i)]));
    service.sky().retire_one();
  }
  ASSERT_TRUE(*read->wait(Duration(-1)));
  EXPECT_EQ(state, 6);
  service.sky().retire_one();
  EXPECT_EQ(output_of(behind).value(), 8);
}

TEST(WorkerEnqueued, LandAllBeforeAGraphIsAddedAndBeforeATurnEnds) {
  EnqueueService service;
  const JobHandle job = service.add_job("flier");
  settle_in(service, job);
  const Pending pending = service.submit(job, 1);
  service.sky().wait_for(1);
  std::thread visitor([&] {
    const auto added = service.worker().add_graph(
        *job, lanes::encode_graph(testing::reading_graph(EnqueueService::kCount)));
    EXPECT_TRUE(added);
    EXPECT_TRUE(is_done(pending));
  });
  service.sky().retire_one();
  visitor.join();
  // Another job in the same lane: the turn of the first is recalled, and ends when it has retired.
  const JobHandle other = service.add_job("other");
  const Pending last = service.submit(job, 1);
  const Pending others = service.submit(other, 1);
  service.sky().wait_for(1);
  EXPECT_FALSE(is_done(others));
  service.sky().open();
  EXPECT_EQ(output_of(last).value(), 4);
  EXPECT_EQ(output_of(others).value(), 2);
}

TEST(WorkerEnqueued, ARunThatIsWaitedForLandsAtOnce) {
  EnqueueService service;
  const JobHandle job = service.add_job("flier");
  settle_in(service, job);
  const std::vector<float> input(EnqueueService::kCount, 1);
  std::vector<float> output(EnqueueService::kCount);
  const lanes::InputView view{.data = input.data(), .bytes = input.size() * sizeof(float)};
  const lanes::OutputView room{.data = output.data(), .bytes = output.size() * sizeof(float)};
  std::optional<Status> done;
  std::thread client([&] {
    const GraphHandle graph = service.worker().find_graph(*job, 0).value();
    do {
      done = service.worker().try_run(*job, *graph, {&view, 1}, {&room, 1});
    } while (!done);  // the lane's thread may just be ending its own
  });
  service.sky().retire_one();
  client.join();
  EXPECT_TRUE(*done);
  EXPECT_EQ(output.front(), 2);
  EXPECT_EQ(service.sky().enqueued(), 0U);
}

TEST(WorkerEnqueued, OfAJobThatIsClosedLandFirst) {
  EnqueueService service;
  const JobHandle job = service.add_job("closed");
  const JobHandle bystander = service.add_job("bystander");
  settle_in(service, job);
  const Pending flown = service.submit(job, 1);
  service.sky().wait_for(1);
  std::thread closer([&] { service.worker().close_job(job); });
  service.sky().retire_one();
  closer.join();
  EXPECT_EQ(output_of(flown).value(), 2);
  service.sky().open();
  EXPECT_EQ(output_of(service.submit(bystander, 1)).value(), 2);
}

TEST(WorkerEnqueued, ALandingThatFailsEndsItsJobAndNoOther) {
  EnqueueService service(/*lanes=*/2);
  const JobHandle job = service.add_job("unlucky");
  const JobHandle bystander = service.add_job("bystander");
  settle_in(service, job);
  const Pending first = service.submit(job, 1);
  const Pending second = service.submit(job, 1);
  service.sky().wait_for(2);
  service.sky().fail({ErrorCode::failed, "a copy went wrong"});
  service.sky().open();
  EXPECT_THAT(output_of(first).error().message, HasSubstr("a copy went wrong"));
  EXPECT_THAT(output_of(second).error().message, HasSubstr("a copy went wrong"));
  EXPECT_FALSE(service.worker().submit(job, first));
  service.worker().close_job(job);
  EXPECT_TRUE(service.worker().device_status());
  EXPECT_FALSE(service.worker().is_over(*bystander));
}

TEST(WorkerEnqueued, ADeviceThatFailsEndsEveryJobWithItsWords) {
  EnqueueService service(/*lanes=*/2);
  const JobHandle guilty = service.add_job("guilty");
  const JobHandle bystander = service.add_job("bystander");
  settle_in(service, guilty);
  const Pending flown = service.submit(guilty, 1);
  service.sky().wait_for(1);
  service.sky().fail({ErrorCode::device_lost, "an illegal address"});
  service.sky().open();
  const Error error = output_of(flown).error();
  EXPECT_EQ(error.code, ErrorCode::device_lost);
  EXPECT_THAT(error.message, HasSubstr("while job 'guilty' ran graph 'adding'"));
  EXPECT_THAT(error.message, HasSubstr("an illegal address"));
  EXPECT_FALSE(service.worker().device_status());
  for (const JobHandle& job : {guilty, bystander}) {
    const Status refused = service.worker().submit(job, flown);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::device_lost);
    service.worker().close_job(job);
  }
}

TEST(WorkerEnqueued, AJobThatWasAloneOnADeviceThatFailedIsBlamedInTheJournal) {
  const JournalFile file;
  const auto journal = file.map().value();
  EnqueueService service(/*lanes=*/2, journal.get());
  const JobHandle guilty = service.add_job("guilty", journal->job(0));
  const JobHandle bystander = service.add_job("bystander", journal->job(1));
  settle_in(service, guilty);
  const Pending flown = service.submit(guilty, 1);
  service.sky().wait_for(1);
  service.sky().fail({ErrorCode::device_lost, "an illegal address"});
  service.sky().open();
  EXPECT_FALSE(output_of(flown));
  ASSERT_TRUE(service.lost());
  ASSERT_EQ(service.lost()->size(), 1U);
  EXPECT_EQ(service.lost()->front().first, guilty->id);
  EXPECT_EQ(service.lost()->front().second.code, ErrorCode::device_lost);
  ASSERT_TRUE(journal->job(0).blamed());
  EXPECT_THAT(*journal->job(0).blamed(), HasSubstr("an illegal address"));
  EXPECT_FALSE(journal->job(1).blamed());
}

TEST(WorkerEnqueued, OfTwoJobsThatWereOnItNoneIsBlamedYet) {
  const JournalFile file;
  const auto journal = file.map().value();
  EnqueueService service(/*lanes=*/2, journal.get());
  const std::vector<JobHandle> jobs = {service.add_job("first", journal->job(0)),
                                       service.add_job("second", journal->job(1))};
  for (const JobHandle& job : jobs) settle_in(service, job);
  std::vector<Pending> flown;
  for (const JobHandle& job : jobs) flown.push_back(service.submit(job, 1));
  service.sky().wait_for(2);
  service.sky().fail({ErrorCode::device_lost, "an illegal address"});
  service.sky().open();
  for (const Pending& work : flown) EXPECT_FALSE(output_of(work));
  ASSERT_TRUE(service.lost());
  EXPECT_TRUE(service.lost()->empty()) << "a successor tries both again";
  EXPECT_FALSE(journal->job(0).blamed());
  EXPECT_FALSE(journal->job(1).blamed());
  journal->job(0).suspect("once more", /*alone=*/false);
  EXPECT_TRUE(journal->job(0).blamed()) << "the worker had counted once";
}

TEST(WorkerEnqueued, WhoOnlyCopiesWhenTheDeviceFailsIsSuspectedAtMost) {
  const JournalFile file;
  const auto journal = file.map().value();
  EnqueueService service(/*lanes=*/2, journal.get());
  const JobHandle reader = service.add_job("reader", journal->job(0));
  service.sky().fail({ErrorCode::device_lost, "an illegal address"});
  float value = 0;
  const std::optional<Status> read = service.read(reader, &value)->wait(Duration(-1));
  ASSERT_FALSE(*read);
  EXPECT_THAT(read->error().message, HasSubstr("while memory of job 'reader' was read or written"));
  ASSERT_TRUE(service.lost());
  EXPECT_TRUE(service.lost()->empty()) << "it is tried again";
  EXPECT_FALSE(journal->job(0).blamed());
  journal->job(0).suspect("once more", /*alone=*/false);
  EXPECT_TRUE(journal->job(0).blamed()) << "there was nobody else";
}

TEST(WorkerEnqueued, WhoOnlyCopiesIsNotSuspectedBesideOneAtWork) {
  const JournalFile file;
  const auto journal = file.map().value();
  EnqueueService service(/*lanes=*/2, journal.get());
  const JobHandle reader = service.add_job("reader", journal->job(0));
  const JobHandle at_work = service.add_job("at-work", journal->job(1));
  settle_in(service, at_work);
  const Pending flown = service.submit(at_work, 1);
  service.sky().wait_for(1);
  service.sky().fail({ErrorCode::device_lost, "an illegal address"});
  float value = 0;
  EXPECT_FALSE(*service.read(reader, &value)->wait(Duration(-1)));
  service.sky().open();
  EXPECT_FALSE(output_of(flown));
  EXPECT_TRUE(service.lost()->empty()) << "it is tried again";
  for (const uint32_t record : {0U, 1U}) {
    EXPECT_FALSE(journal->job(record).blamed());
    journal->job(record).suspect("once more", /*alone=*/false);
  }
  EXPECT_FALSE(journal->job(0).blamed());
  EXPECT_TRUE(journal->job(1).blamed());
}

}  // namespace
}  // namespace laneway::service
