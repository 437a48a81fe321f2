// What the registry does for each request, whom it refuses, and with which words; with a worker
// that keeps to its side of the messages.
#include "service/broker/job_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "memory/os/shared_memory.h"
#include "service/broker/limits.h"
#include "service/journal/journal.h"
#include "tests/service/broker/registry_rig.h"

namespace laneway::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class JobRegistryTest : public testing::Test, protected RegistryRig {
 protected:
  std::string failure(uint64_t session, uint64_t number) {
    return get<wire::Failure>(session, number).message;
  }
};

TEST_F(JobRegistryTest, AJobIsHeldToldOfferedPlacedAndAnsweredWithItsLink) {
  registry().create(from(1, 1), job("digits", 6400, /*has_initial=*/true), files(2));
  EXPECT_THAT(held.keys(), ElementsAre("j/1", "l/1/1", "n"));
  EXPECT_EQ(held.entries.back().fds.size(), 4u) << "ring, eventfd, both ends of the pipe";
  const auto created = get<wire::JobCreated>(1, 1);
  EXPECT_EQ(created.job, 1u);
  EXPECT_EQ(created.name, "digits");
  EXPECT_EQ(created.link, 1u);
  EXPECT_EQ(created.graph.name, "graph 0");
  EXPECT_EQ((answers[{1, 1}].fds), 3u);
  registry().wait(from(1, 2), {.job = 1, .timeout_ms = 100});
  get<wire::JobPlaced>(1, 2);
  const auto record = std::find_if(held.entries.begin(), held.entries.end(),
                                   [](const auto& entry) { return entry.key == "j/1"; });
  EXPECT_EQ(record->fds.size(), 1u) << "the initial bytes are not kept once they are in the image";
  EXPECT_EQ(worker.jobs.at(JobId(1)).links.size(), 1u);
}

TEST_F(JobRegistryTest, AJobWithoutANameGetsOneAndNamesNeedNotBeUnique) {
  EXPECT_EQ(create(1, 1, "", 640), 1u);
  EXPECT_EQ(registry().table().all().at(JobId(1)).name(), "job-1");
  EXPECT_EQ(create(1, 2, "twin", 640), 2u);
  EXPECT_EQ(create(2, 1, "twin", 640), 3u);
}

TEST_F(JobRegistryTest, WhatTheWorkerSaysAtOnceIsOfOneInstant) {
  for (const uint64_t number : {1, 2, 3}) create(1, number, "", 640);
  ASSERT_EQ(worker.jobs.at(JobId(1)).lane, worker.jobs.at(JobId(3)).lane);
  worker.ready(JobId(2));  // in the other lane
  settle();
  worker.ready(JobId(3));
  worker.ready(JobId(1));
  settle();
  EXPECT_TRUE(worker.jobs.at(JobId(1)).turn.valid()) << "it is the first of the two";
  // One after the other it would have had a turn, and been recalled.
  for (const lanes::JobStatus& one : core().snapshot().jobs) EXPECT_EQ(one.iterations, 0u);
}

TEST_F(JobRegistryTest, WhatTheWorkerSaysIsHeardInItsOrder) {
  create(1, 1, "", 640);
  worker.ready(JobId(1));
  settle();
  worker.fail_for_good(JobId(1));
  settle();
  const auto ended = core().snapshot().ended;
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended.front().state, lanes::JobState::failed) << "its turn ended before it was gone";
}

TEST_F(JobRegistryTest, RefusesWhatCanNeverFitAndForgetsIt) {
  registry().create(from(1, 1), job("huge", 64'000), files(1));
  EXPECT_EQ(get<wire::Failure>(1, 1).code, ErrorCode::out_of_memory);
  EXPECT_THAT(failure(1, 1), HasSubstr("can never fit"));
  EXPECT_THAT(held.keys(), ElementsAre("n"));
  EXPECT_TRUE(worker.jobs.empty());
  registry().wait(from(1, 2), {.job = 1, .timeout_ms = 0});
  EXPECT_THAT(failure(1, 2), HasSubstr("can never fit")) << "why it is gone is remembered";
}

TEST_F(JobRegistryTest, RefusesWhatTheWorkerRefusesAndForgetsIt) {
  registry().create(from(1, 1), job("refused", 640), files(1));
  EXPECT_EQ(get<wire::Failure>(1, 1).code, ErrorCode::invalid_graph);
  EXPECT_THAT(held.keys(), ElementsAre("n"));
  EXPECT_TRUE(registry().empty());
}

TEST_F(JobRegistryTest, ChecksWhatComesWithAJob) {
  registry().create(from(1, 1), job("one", 640, true), files(1));
  EXPECT_THAT(failure(1, 1), HasSubstr("2 descriptors"));
  wire::CreateJob weightless = job("two", 640);
  weightless.spec.options.weight = 0;
  registry().create(from(1, 2), weightless, files(1));
  EXPECT_THAT(failure(1, 2), HasSubstr("weight = 0: give a number from 0.001"));
  registry().create(from(1, 3), job(std::string(limits::kMaxStringBytes + 1, 'x'), 640), files(1));
  EXPECT_THAT(failure(1, 3), HasSubstr("name"));
  EXPECT_TRUE(held.keys().empty());
}

TEST_F(JobRegistryTest, AClientHasSoManyJobsAndNoMore) {
  for (uint64_t i = 1; i <= limits::kMaxJobsPerSession; ++i) {
    registry().create(from(1, i), job("many", 64), files(1));
    settle();
  }
  registry().create(from(1, 1000), job("one more", 64), files(1));
  EXPECT_EQ(get<wire::Failure>(1, 1000).code, ErrorCode::refused);
  registry().create(from(2, 1), job("another's", 64), files(1));
  get<wire::JobCreated>(2, 1);
}

TEST_F(JobRegistryTest, AWaitingJobHearsItsPlaceItsReasonAndWhenThereMayBeRoom) {
  create(1, 1, "first", 40'000);
  create(1, 2, "second", 40'000);
  registry().wait(from(1, 3), {.job = 2, .timeout_ms = 200});
  settle();
  EXPECT_FALSE(answered(1, 3));
  EXPECT_EQ(registry().next_wakeup(), clock.now() + milliseconds(200));
  clock.advance(milliseconds(200));
  const auto waits = get<wire::JobWaits>(1, 3);
  EXPECT_EQ(waits.position, 1u);
  EXPECT_EQ(waits.code, "pool_full");
  EXPECT_EQ(waits.persistent, 40'000);
  EXPECT_THAT(waits.text, HasSubstr("position 1"));
  EXPECT_LT(waits.estimate_s, 0) << "nobody said how much the first one runs";
  registry().wait(from(1, 4), {.job = 2, .timeout_ms = 1000});
  registry().close(from(1, 5), {.job = 1});
  get<wire::Done>(1, 5);
  get<wire::JobPlaced>(1, 4);
}

// The fake worker's turns end only when a job ends, as those of a job that is alone in its lane.
TEST_F(JobRegistryTest, IterationsOfATurnThatIsOpenCountInStateAndEstimate) {
  const auto memory =
      memory::SharedMemory::create("journal", Bytes(static_cast<int64_t>(kJournalBytes)));
  const auto journal = Journal::map(memory.value().descriptor()).value();
  const auto view = JournalView::map(memory.value().descriptor()).value();
  registry().set_journal(*view);
  wire::CreateJob request = job("first", 40'000);
  request.spec.options.total_iterations = 1000;
  registry().create(from(1, 1), request, files(1));
  get<wire::JobCreated>(1, 1);
  create(1, 2, "second", 40'000);
  EXPECT_EQ(registry().snapshot().jobs[0].iterations, 0u) << "the record is not the job's yet";

  const uint32_t record = registry().table().all().at(JobId(1)).record.record;
  JobJournal written = journal->job(record);
  written.open(JobId(1), {});
  for (uint64_t i = 0; i < 100; ++i) {
    written.begin({.link = 1, .sequence = i});
    written.enter_commit();
    written.end({}, /*counts=*/true, milliseconds(10));
  }
  const lanes::JobStatus first = registry().snapshot().jobs[0];
  EXPECT_EQ(first.iterations, 100u);
  EXPECT_EQ(first.device_time, milliseconds(1000));
  EXPECT_EQ(core().snapshot().jobs[0].iterations, 0u) << "no turn has ended";
  registry().wait(from(1, 3), {.job = 2, .timeout_ms = 0});
  EXPECT_DOUBLE_EQ(get<wire::JobWaits>(1, 3).estimate_s, 9.0) << "900 more, of 10 ms each";

  const auto run = [&written](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      written.begin({.link = 1, .sequence = i});
      written.end({}, /*counts=*/true, milliseconds(10));
    }
  };
  clock.advance(seconds(2));
  run(50);
  registry().wait(from(1, 4), {.job = 2, .timeout_ms = 0});
  EXPECT_DOUBLE_EQ(get<wire::JobWaits>(1, 4).estimate_s, 34.0) << "850 more, one in 40 ms";
  clock.advance(milliseconds(100));
  run(50);
  registry().wait(from(1, 5), {.job = 2, .timeout_ms = 0});
  EXPECT_DOUBLE_EQ(get<wire::JobWaits>(1, 5).estimate_s, 32.0) << "too short to tell another pace";
  clock.advance(seconds(3));
  registry().wait(from(1, 6), {.job = 2, .timeout_ms = 0});
  run(1);
  clock.advance(seconds(3));
  registry().wait(from(1, 7), {.job = 2, .timeout_ms = 0});
  EXPECT_GT(get<wire::JobWaits>(1, 7).estimate_s, 1000.0) << "it has become slow";
}

TEST_F(JobRegistryTest, GraphsAreNumberedAddedAndDropped) {
  create(1, 1, "job", 640);
  registry().parts().add_graph(from(1, 2), {.job = 1}, files(1));
  EXPECT_EQ(get<wire::GraphAdded>(1, 2).graph.number, 1u);
  EXPECT_EQ(held.keys().count("g/1/1"), 1u);
  registry().parts().add_graph(from(1, 3), {.job = 1}, files(2));
  EXPECT_THAT(failure(1, 3), HasSubstr("1 descriptor"));
  registry().parts().add_graph(from(2, 1), {.job = 1}, files(1));
  EXPECT_THAT(failure(2, 1), HasSubstr("not this session's"));
  registry().parts().drop_graph(from(1, 4), {.job = 1, .number = 1});
  get<wire::Done>(1, 4);
  EXPECT_EQ(held.keys().count("g/1/1"), 0u);
  registry().parts().drop_graph(from(1, 5), {.job = 1, .number = 1});
  get<wire::Done>(1, 5);
  registry().parts().drop_graph(from(1, 6), {.job = 1, .number = 0});
  EXPECT_THAT(failure(1, 6), HasSubstr("last graph"));
}

TEST_F(JobRegistryTest, TheFirstGraphMayBeDroppedAndStaysDropped) {
  create(1, 1, "job", 640);
  registry().parts().add_graph(from(1, 2), {.job = 1}, files(1));
  settle();
  registry().parts().drop_graph(from(1, 3), {.job = 1, .number = 0});
  get<wire::Done>(1, 3);
  restart_worker();
  settle();
  EXPECT_THAT(worker.jobs.at(JobId(1)).graphs, ElementsAre(1u));
  start();
  settle();
  EXPECT_THAT(worker.jobs.at(JobId(1)).graphs, ElementsAre(1u));
}

TEST_F(JobRegistryTest, SegmentsAreOfALinkOfTheSession) {
  create(1, 1, "job", 640);
  registry().parts().add_segment(from(1, 2), {.job = 1, .link = 1, .segment = 7, .bytes = 4096},
                                 files(1));
  get<wire::Done>(1, 2);
  EXPECT_EQ(held.keys().count("m/1/1/7"), 1u);
  EXPECT_THAT(worker.jobs.at(JobId(1)).links.at(1).segments, ElementsAre(7u));
  registry().parts().add_segment(from(1, 3), {.job = 1, .link = 2, .segment = 8, .bytes = 4096},
                                 files(1));
  EXPECT_THAT(failure(1, 3), HasSubstr("link 2"));
  registry().parts().add_segment(from(1, 4), {.job = 1, .link = 1, .segment = 9, .bytes = 0},
                                 files(1));
  EXPECT_THAT(failure(1, 4), HasSubstr("without bytes"));
  EXPECT_EQ(held.keys().count("m/1/1/9"), 0u);
  registry().parts().drop_segment(from(1, 5), {.job = 1, .link = 1, .segment = 7});
  get<wire::Done>(1, 5);
  EXPECT_TRUE(worker.jobs.at(JobId(1)).links.at(1).segments.empty());
  for (uint32_t i = 0; i < limits::kMaxSegmentsPerLink; ++i) {
    registry().parts().add_segment(from(1, 100 + i),
                                   {.job = 1, .link = 1, .segment = i, .bytes = 1}, files(1));
    settle();
  }
  registry().parts().add_segment(from(1, 6), {.job = 1, .link = 1, .segment = 5000, .bytes = 1},
                                 files(1));
  EXPECT_EQ(get<wire::Failure>(1, 6).code, ErrorCode::refused);
}

TEST_F(JobRegistryTest, OthersOfTheSameUserAttachToWhatIsShared) {
  create(1, 1, "alone", 640);
  create(1, 2, "shared", 640, /*shared=*/true);
  registry().parts().attach(from(2, 1), {.name = "alone"});
  EXPECT_EQ(get<wire::Failure>(2, 1).code, ErrorCode::refused);
  registry().parts().attach(from(2, 2, /*user=*/7), {.name = "shared"});
  EXPECT_EQ(get<wire::Failure>(2, 2).code, ErrorCode::refused);
  registry().parts().attach(from(2, 3), {.name = "shared"});
  const auto attached = get<wire::JobAttached>(2, 3);
  EXPECT_EQ(attached.job, 2u);
  EXPECT_EQ(attached.link, 2u);
  ASSERT_EQ(attached.slots.size(), 1u);
  ASSERT_EQ(attached.graphs.size(), 1u);
  EXPECT_EQ((answers[{2, 3}].fds), 3u);
  registry().parts().add_graph(from(2, 4), {.job = 2}, files(1));
  EXPECT_EQ(get<wire::GraphAdded>(2, 4).graph.number, 1u);
  registry().parts().drop_graph(from(2, 5), {.job = 2, .number = 0});
  EXPECT_EQ(get<wire::Failure>(2, 5).code, ErrorCode::refused) << "it is the owner's";
  registry().close(from(2, 6), {.job = 2});
  get<wire::Done>(2, 6);
  EXPECT_EQ(worker.jobs.at(JobId(2)).links.size(), 1u) << "only the link went";
  EXPECT_THAT(worker.jobs.at(JobId(2)).graphs, ElementsAre(0u)) << "and the graph that it brought";
}

TEST_F(JobRegistryTest, WhenTwoSharedJobsHaveOneNameTheirIdsTellThemApart) {
  create(1, 1, "twin", 640, true);
  create(1, 2, "twin", 640, true);
  registry().parts().attach(from(2, 1), {.name = "twin"});
  EXPECT_THAT(failure(2, 1), HasSubstr("several"));
  registry().parts().attach(from(2, 2), {.name = "2"});
  EXPECT_EQ(get<wire::JobAttached>(2, 2).job, 2u);
}

TEST_F(JobRegistryTest, ASessionsEndEndsItsJobsAndTakesItsLinksAway) {
  create(1, 1, "mine", 640, true);
  create(2, 1, "other", 640);
  registry().parts().attach(from(2, 2), {.name = "mine"});
  get<wire::JobAttached>(2, 2);
  worker.ready(JobId(1));
  settle();
  EXPECT_TRUE(worker.jobs.at(JobId(1)).turn.valid());
  registry().session_ended(SessionId(2), true);
  settle();
  EXPECT_EQ(worker.jobs.count(JobId(2)), 0u);
  EXPECT_EQ(worker.jobs.at(JobId(1)).links.size(), 1u);
  registry().session_ended(SessionId(1), true);
  settle();
  EXPECT_TRUE(worker.jobs.empty());
  EXPECT_TRUE(worker.regions.empty());
  EXPECT_THAT(held.keys(), ElementsAre("n"));
}

TEST_F(JobRegistryTest, JobsOfAClientThatSaysGoodbyeAreFinishedThoseOfADeadOneCancelled) {
  create(1, 1, "goodbye", 640);
  create(2, 1, "dead", 640);
  registry().session_ended(SessionId(1), false);
  registry().session_ended(SessionId(2), true);
  settle();
  const auto ended = core().snapshot().ended;
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].state, lanes::JobState::finished);
  EXPECT_EQ(ended[1].state, lanes::JobState::cancelled);
}

TEST_F(JobRegistryTest, KillingNeedsTheRightAndAName) {
  create(1, 1, "a", 640);
  create(1, 2, "twin", 640);
  create(1, 3, "twin", 640);
  registry().kill(from(2, 1, /*user=*/7), {.job = "a"}, false);
  EXPECT_THAT(failure(2, 1), HasSubstr("no job 'a'"));
  registry().kill(from(2, 2, 7), {.job = "twin"}, true);
  EXPECT_THAT(failure(2, 2), HasSubstr(" 2 3"));
  registry().wait(from(1, 4), {.job = 1, .timeout_ms = 0});
  registry().kill(from(2, 3, 7), {.job = "1"}, true);
  get<wire::Done>(2, 3);
  registry().kill(from(2, 4), {.job = "3"}, false);
  get<wire::Done>(2, 4);
  EXPECT_EQ(worker.jobs.size(), 1u);
}

TEST_F(JobRegistryTest, ReleasingNeedsTheRightANameAndAJobThatIsQuarantined) {
  create(1, 1, "a", 640);
  worker.quarantined = {1};
  registry().release(from(2, 1, /*user=*/7), {.job = "a"}, false);
  EXPECT_THAT(failure(2, 1), HasSubstr("no job 'a' that this user may release"));
  registry().release(from(1, 2), {.job = "a"}, false);
  get<wire::Done>(1, 2);
  EXPECT_TRUE(worker.quarantined.empty());
  registry().release(from(2, 2, 7), {.job = "1"}, true);
  EXPECT_THAT(failure(2, 2), HasSubstr("not quarantined"));
  // A job that ends before it is released was not released.
  registry().close(from(1, 3), {.job = 1});
  registry().release(from(1, 4), {.job = "1"}, false);
  EXPECT_THAT(failure(1, 4), HasSubstr("closed by its client"));
}

TEST_F(JobRegistryTest, AFailedJobsClientHearsWhyEvenLater) {
  create(1, 1, "job", 640);
  worker.ready(JobId(1));
  settle();
  worker.fail(JobId(1));
  settle();
  EXPECT_TRUE(worker.jobs.empty());
  registry().wait(from(1, 2), {.job = 1, .timeout_ms = 0});
  EXPECT_EQ(failure(1, 2), "iteration 7 failed");
  registry().wait(from(2, 1, /*user=*/7), {.job = 1, .timeout_ms = 0});
  EXPECT_THAT(failure(2, 1), HasSubstr("is not there")) << "another user hears nothing of it";
  registry().close(from(1, 3), {.job = 1});
  get<wire::Done>(1, 3);
}

TEST_F(JobRegistryTest, AReportHasTheCoresLineOfTheJob) {
  create(1, 1, "job", 640);
  registry().report(from(1, 2), {.job = 1, .with_tapes = false}, false);
  EXPECT_THAT(get<wire::Text>(1, 2).text, HasSubstr("\"name\":\"job\""));
}

TEST_F(JobRegistryTest, AReportIsForTheJobsUserAndForOperators) {
  create(1, 1, "job", 640);
  registry().report(from(2, 1), {.job = 1, .with_tapes = false}, false);
  EXPECT_THAT(get<wire::Text>(2, 1).text, HasSubstr("\"name\":\"job\""));
  registry().report(from(3, 1, /*user=*/7), {.job = 1, .with_tapes = false}, false);
  EXPECT_THAT(failure(3, 1), HasSubstr("not this session's"));
  registry().report(from(3, 2, 7), {.job = 1, .with_tapes = false}, true);
  EXPECT_THAT(get<wire::Text>(3, 2).text, HasSubstr("\"name\":\"job\""));
}

TEST_F(JobRegistryTest, TheServicesEndEndsAllJobsWithItsReason) {
  create(1, 1, "a", 640);
  create(2, 1, "b", 40'000);
  create(2, 2, "waits", 40'000);
  registry().wait(from(2, 3), {.job = 3, .timeout_ms = 1000});
  registry().close_all({ErrorCode::unavailable, "the service was shut down"});
  EXPECT_EQ(get<wire::Failure>(2, 3).code, ErrorCode::unavailable);
  settle();
  EXPECT_TRUE(registry().empty());
  registry().create(from(1, 9), job("late", 64), files(1));
  EXPECT_EQ(get<wire::Failure>(1, 9).code, ErrorCode::unavailable);
}

TEST_F(JobRegistryTest, AWorkerCannotSpeakForOthers) {
  create(1, 1, "job", 640);
  worker.tell(lanes::CapacityChanged{Bytes(64)});
  worker.tell(lanes::ImagePlaced{JobId(77)});
  settle();
  EXPECT_EQ(core().snapshot().jobs.size(), 1u);
  EXPECT_EQ(core().snapshot().capacity, Bytes(64'000));
}

}  // namespace
}  // namespace laneway::service
