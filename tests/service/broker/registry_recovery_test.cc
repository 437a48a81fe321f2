// Shows that neither the death of a broker nor that of a worker, at any step of any request, loses
// or doubles what a client asked for: a script of requests runs once undisturbed, and then once for
// every single thing that the broker says to the outside, dying before or after it; clients repeat
// what was not answered. At the end everything was answered as it should be, and nothing is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/service/broker/registry_rig.h"

namespace laneway::service {
namespace {

using testing::ElementsAre;

// One client's requests, one after the other, as the client library makes them: the same request
// is repeated until it is answered.
class Script {
 public:
  explicit Script(RegistryRig& rig) : rig_(rig) {}

  uint64_t ask(const std::function<void(const Requester&)>& request) {
    const uint64_t number = ++last_;
    for (int tries = 0; tries < 20 && !rig_.answered(1, number); ++tries) {
      alive([&] {
        request(RegistryRig::from(1, number));
        rig_.settle();
      });
      if (!rig_.answered(1, number)) rig_.clock.advance(milliseconds(500));
    }
    EXPECT_TRUE(rig_.answered(1, number)) << "request " << number;
    return number;
  }

  // Whatever dies in it: a new broker is there afterwards.
  void alive(const std::function<void()>& what) {
    try {
      what();
    } catch (const Killed&) {
      ++deaths;
      rig_.start();
      rig_.settle();
    }
  }

  void run() {
    uint64_t job = 0;
    const uint64_t created = ask([&](const Requester& from) {
      rig_.registry().create(from, RegistryRig::job("job", 6400, true), RegistryRig::files(2));
    });
    job = rig_.get<wire::JobCreated>(1, created).job;
    // An answer with descriptors that was lost on its way is asked for again.
    rig_.answers.erase({1, created});
    alive([&] {
      rig_.registry().create(RegistryRig::from(1, created), RegistryRig::job("job", 6400, true),
                             {});
      rig_.settle();
    });
    if (!rig_.answered(1, created)) {
      rig_.registry().create(RegistryRig::from(1, created), RegistryRig::job("job", 6400, true),
                             {});
    }
    EXPECT_EQ(rig_.get<wire::JobCreated>(1, created).job, job) << "one job, however often asked";
    const uint32_t link = rig_.get<wire::JobCreated>(1, created).link;
    const uint64_t placed = ask([&](const Requester& from) {
      rig_.registry().wait(from, {.job = job, .timeout_ms = 1000});
    });
    rig_.get<wire::JobPlaced>(1, placed);
    const uint64_t graph = ask([&](const Requester& from) {
      rig_.registry().parts().add_graph(from, {.job = job}, RegistryRig::files(1));
    });
    EXPECT_EQ(rig_.get<wire::GraphAdded>(1, graph).graph.number, 1u);
    const uint64_t segment = ask([&](const Requester& from) {
      rig_.registry().parts().add_segment(
          from, {.job = job, .link = link, .segment = 3, .bytes = 4096}, RegistryRig::files(1));
    });
    rig_.get<wire::Done>(1, segment);
    const auto& known = rig_.worker.jobs.at(JobId(job));
    EXPECT_THAT(known.graphs, ElementsAre(0u, 1u));
    EXPECT_THAT(known.links.at(link).segments, ElementsAre(3u));
    EXPECT_TRUE(known.placed);
    rig_.get<wire::Done>(1, ask([&](const Requester& from) {
                           rig_.registry().parts().drop_segment(
                               from, {.job = job, .link = link, .segment = 3});
                         }));
    rig_.get<wire::Done>(1, ask([&](const Requester& from) {
                           rig_.registry().parts().drop_graph(from, {.job = job, .number = 1});
                         }));
    EXPECT_THAT(rig_.worker.jobs.at(JobId(job)).graphs, ElementsAre(0u));
    rig_.get<wire::Done>(
        1, ask([&](const Requester& from) { rig_.registry().close(from, {.job = job}); }));
    alive([&] { rig_.settle(); });
    rig_.settle();
    EXPECT_TRUE(rig_.worker.jobs.empty());
    EXPECT_TRUE(rig_.worker.regions.empty());
    EXPECT_TRUE(rig_.registry().empty());
    EXPECT_THAT(rig_.held.keys(), ElementsAre("n"));
    EXPECT_EQ(rig_.core().snapshot().claimed, Bytes(0));
  }

  uint64_t deaths = 0;

 private:
  RegistryRig& rig_;
  uint64_t last_ = 0;
};

TEST(RegistryRecovery, ABrokerMayDieAtEveryStepOfEveryRequest) {
  uint64_t steps = 0;
  {
    RegistryRig rig;
    Script script(rig);
    script.run();
    steps = rig.death.passed();
  }
  ASSERT_GT(steps, 30u);
  for (uint64_t step = 1; step <= steps; ++step) {
    SCOPED_TRACE("dies at step " + std::to_string(step) + " of " + std::to_string(steps));
    RegistryRig rig;
    rig.settle();
    rig.death.arm(step);
    Script script(rig);
    script.run();
    EXPECT_EQ(script.deaths, 1u);
    if (testing::Test::HasFailure()) return;
  }
}

// `what` happens after the n-th request was said, before its answer came or behind it.
void expect_undisturbed_by(void (*what)(RegistryRig& rig)) {
  for (uint64_t when = 0; when < 12; ++when) {
    SCOPED_TRACE("after " + std::to_string(when));
    RegistryRig rig;
    rig.settle();
    uint64_t said = 0;
    const auto maybe = [&] {
      if (said++ == when) what(rig);
      rig.settle();
      if (said++ == when) what(rig);
      rig.settle();
    };
    rig.registry().create(RegistryRig::from(1, 1), RegistryRig::job("job", 6400, true),
                          RegistryRig::files(2));
    maybe();
    ASSERT_EQ(rig.get<wire::JobCreated>(1, 1).job, 1u);
    rig.registry().parts().add_graph(RegistryRig::from(1, 2), {.job = 1}, RegistryRig::files(1));
    maybe();
    EXPECT_EQ(rig.get<wire::GraphAdded>(1, 2).graph.number, 1u);
    rig.registry().parts().add_segment(RegistryRig::from(1, 3),
                                       {.job = 1, .link = 1, .segment = 3, .bytes = 64},
                                       RegistryRig::files(1));
    maybe();
    rig.get<wire::Done>(1, 3);
    rig.registry().report(RegistryRig::from(1, 4), {.job = 1, .with_tapes = false}, false);
    maybe();
    rig.get<wire::Text>(1, 4);
    rig.registry().parts().drop_graph(RegistryRig::from(1, 5), {.job = 1, .number = 1});
    maybe();
    rig.get<wire::Done>(1, 5);
    EXPECT_THAT(rig.worker.jobs.at(JobId(1)).graphs, ElementsAre(0u));
    EXPECT_THAT(rig.worker.jobs.at(JobId(1)).links.at(1).segments, ElementsAre(3u));
    rig.registry().close(RegistryRig::from(1, 6), {.job = 1});
    maybe();
    rig.get<wire::Done>(1, 6);
    EXPECT_TRUE(rig.worker.jobs.empty());
    EXPECT_THAT(rig.held.keys(), ElementsAre("n"));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RegistryRecovery, AWorkerMayDieAnyTime) {
  expect_undisturbed_by([](RegistryRig& rig) { rig.restart_worker(); });
}

TEST(RegistryRecovery, ACoreMayBeginAnewAnyTime) {
  expect_undisturbed_by([](RegistryRig& rig) { rig.registry().begin_core_anew(); });
}

// Everything but the job's state, which a turn changes.
void expect_same_place(const lanes::JobStatus& after, const lanes::JobStatus& before) {
  EXPECT_EQ(after.lane, before.lane);
  EXPECT_EQ(after.options, before.options) << "the broker's own word counts";
  EXPECT_EQ(after.session, before.session);
  EXPECT_EQ(after.reason.position, before.reason.position);
}

void expect_same_core_after(void (*what)(RegistryRig& rig)) {
  RegistryRig rig;
  const uint64_t first = rig.create(1, 1, "first", 30'000);
  rig.create(1, 2, "second", 20'000);
  rig.create(2, 1, "third", 6'400);
  rig.worker.ready(JobId(first));
  rig.settle();
  const lanes::Snapshot before = rig.core().snapshot();
  const TurnId turn = rig.worker.jobs.at(JobId(first)).turn;
  ASSERT_TRUE(turn.valid());
  what(rig);
  rig.settle();
  const lanes::Snapshot after = rig.core().snapshot();
  ASSERT_EQ(after.jobs.size(), before.jobs.size());
  for (size_t i = 0; i < after.jobs.size(); ++i) {
    EXPECT_EQ(after.jobs[i].state, before.jobs[i].state);
    expect_same_place(after.jobs[i], before.jobs[i]);
  }
  EXPECT_EQ(after.claimed, before.claimed);
  EXPECT_EQ(rig.worker.jobs.at(JobId(first)).turn, turn) << "its turn is still open";
}

TEST(RegistryRecovery, ANewBrokersCoreStandsWhereTheOldOneStood) {
  expect_same_core_after([](RegistryRig& rig) { rig.start(); });
}

TEST(RegistryRecovery, ACoreThatBeginsAnewStandsWhereTheOldOneStood) {
  expect_same_core_after([](RegistryRig& rig) { rig.registry().begin_core_anew(); });
}

TEST(RegistryRecovery, ACoreThatWaitsForAReportIsNotBegunAgain) {
  RegistryRig rig;
  const uint64_t first = rig.create(1, 1, "first", 30'000);
  rig.settle();
  const uint64_t reports = rig.worker.reports;
  rig.registry().begin_core_anew();
  rig.registry().begin_core_anew();
  rig.settle();
  EXPECT_EQ(rig.worker.reports, reports + 1);
  rig.restart_worker();
  rig.registry().begin_core_anew();
  rig.settle();
  EXPECT_EQ(rig.worker.reports, reports + 2);
  EXPECT_TRUE(rig.worker.jobs.at(JobId(first)).placed);
}

// Reports do not tell whether a turn has a bound, and while somebody waits for memory every open
// turn must have one.
TEST(RegistryRecovery, WhileAJobWaitsForMemoryANewBrokerAsksTheOpenTurnToEndOnce) {
  RegistryRig rig;
  const uint64_t first = rig.create(1, 1, "first", 30'000);
  const uint64_t second = rig.create(1, 2, "second", 40'000);
  rig.worker.ready(JobId(first));
  rig.settle();
  const lanes::Snapshot before = rig.core().snapshot();
  ASSERT_EQ(before.jobs[1].id, JobId(second));
  ASSERT_EQ(before.jobs[1].state, lanes::JobState::waiting);
  ASSERT_TRUE(rig.worker.jobs.at(JobId(first)).turn.valid());
  rig.start();
  rig.settle();
  const lanes::Snapshot after = rig.core().snapshot();
  ASSERT_EQ(after.jobs.size(), before.jobs.size());
  for (size_t i = 0; i < after.jobs.size(); ++i) expect_same_place(after.jobs[i], before.jobs[i]);
  EXPECT_EQ(after.claimed, before.claimed);
  EXPECT_EQ(after.jobs[0].state, lanes::JobState::resident) << "it had no work left";
  rig.worker.ready(JobId(first));
  rig.settle();
  const TurnId turn = rig.worker.jobs.at(JobId(first)).turn;
  EXPECT_TRUE(turn.valid());
  rig.settle();
  EXPECT_EQ(rig.worker.jobs.at(JobId(first)).turn, turn) << "this one has a bound";
}

TEST(RegistryRecovery, JobsOfSessionsThatWentMeanwhileEnd) {
  RegistryRig rig;
  rig.create(1, 1, "mine", 640, true);
  rig.create(2, 1, "gone", 640);
  rig.registry().parts().attach(RegistryRig::from(2, 2), {.name = "mine"});
  rig.get<wire::JobAttached>(2, 2);
  rig.sessions.erase(SessionId(2));
  rig.start();
  rig.settle();
  EXPECT_EQ(rig.worker.jobs.size(), 1u);
  EXPECT_EQ(rig.worker.jobs.at(JobId(1)).links.size(), 1u);
  EXPECT_THAT(rig.held.keys(), ElementsAre("j/1", "l/1/1", "n"));
}

TEST(RegistryRecovery, AJobThatFailedDoesNotBeginAgainWhenNobodyHeardOfIt) {
  RegistryRig rig;
  rig.create(1, 1, "job", 640);
  rig.worker.ready(JobId(1));
  rig.settle();
  rig.worker.fail(JobId(1));
  rig.registry().read_worker();
  rig.worker.pump();  // it drops the image, and says so to a broker that dies
  ASSERT_TRUE(rig.worker.jobs.empty());
  rig.start();
  rig.settle();
  EXPECT_TRUE(rig.worker.jobs.empty());
  EXPECT_THAT(rig.held.keys(), ElementsAre("n"));
  rig.registry().wait(RegistryRig::from(1, 2), {.job = 1, .timeout_ms = 0});
  EXPECT_EQ(rig.get<wire::Failure>(1, 2).message, "iteration 7 failed");
}

TEST(RegistryRecovery, JobsThatNobodyHoldsEnd) {
  RegistryRig rig;
  rig.create(1, 1, "lost", 640);
  rig.held.entries.clear();
  rig.start();
  rig.settle();
  EXPECT_TRUE(rig.worker.jobs.empty());
  EXPECT_EQ(rig.core().snapshot().claimed, Bytes(0));
}

TEST(RegistryRecovery, IdsOfJobsAndLinksAreNotGivenTwice) {
  RegistryRig rig;
  const uint64_t job = rig.create(1, 1, "job", 640, true);
  rig.registry().parts().attach(RegistryRig::from(2, 1), {.name = "job"});
  EXPECT_EQ(rig.get<wire::JobAttached>(2, 1).link, 2u);
  rig.registry().close(RegistryRig::from(2, 2), {.job = job});
  rig.settle();
  rig.create(1, 2, "last", 640);
  rig.registry().close(RegistryRig::from(1, 3), {.job = 2});
  rig.settle();
  rig.start();
  rig.settle();
  rig.registry().parts().attach(RegistryRig::from(2, 3), {.name = "job"});
  EXPECT_EQ(rig.get<wire::JobAttached>(2, 3).link, 3u);
  EXPECT_EQ(rig.create(1, 4, "next", 640), 3u);
}

TEST(RegistryRecovery, NotesThatMakeNoSenseAreErrorsAndNothingElse) {
  RegistryRig rig;
  for (const char* key : {"", "j", "j/", "j/x", "j/1", "g/1", "l/1/2/3", "m/1/2", "z/1/1", "n"}) {
    const Status restored = rig.registry().restore(key, {1, 2, 3}, RegistryRig::files(1));
    EXPECT_FALSE(restored.ok()) << key;
  }
  EXPECT_TRUE(rig.registry().empty());
}

}  // namespace
}  // namespace laneway::service
