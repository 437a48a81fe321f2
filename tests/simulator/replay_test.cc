// Shows that what a core decided is decided again from its record, whatever happened: short memory,
// several lanes, changes of policy, cores that follow each other, a gap; and that a record that was
// changed, cut, or is none says so and names the place.
#include "simulator/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "lanes/core/core_loop.h"
#include "policies/registry.h"
#include "service/trace/trace_text.h"
#include "simulator/simulator.h"
#include "tests/simulator/recorder.h"
#include "tests/support/scratch_folder.h"

namespace laneway::simulator {
namespace {

namespace trace = wire::trace;
using ::testing::HasSubstr;
using wire::trace::Record;

const std::vector<std::string> kPolicies = {"fifo",           "srtf",    "fair:quantum_s=0.1",
                                            "las:width=pool", "packing", "fifo:by=request"};

// Trainings that come and go in a pool for some of them.
Recorder record_of(uint64_t seed, int64_t jobs) {
  Random random(seed);
  SimulatorConfig config;
  config.core.capacity = mib(256);
  config.core.store = gib(4);
  config.core.set_lanes(static_cast<uint32_t>(random.between(1, 3)), 2);
  config.policy = kPolicies[random.below(kPolicies.size())];
  config.copies = {1'000'000'000, 1'000'000'000};
  Recorder recorder;
  recorder.note(TimePoint(), trace::Started());
  recorder.note(TimePoint(), trace::CoreBegan{config.core, config.policy});
  config.observer = [&recorder](TimePoint now, std::span<const lanes::Event> events,
                                std::span<const lanes::Action> actions) {
    recorder.handled(now, events, actions);
  };
  Simulator simulator(config);
  for (int64_t i = 0; i < jobs; ++i) {
    SimJob job;
    job.submit = TimePoint() + milliseconds(random.between(0, 2'000));
    job.iteration = milliseconds(random.between(5, 40));
    job.iterations = static_cast<uint64_t>(random.between(1, 60));
    job.persistent = mib(random.between(10, 100));
    job.ephemeral = mib(random.between(1, 60));
    simulator.add(job);
  }
  EXPECT_TRUE(simulator.run());
  recorder.note(simulator.now(), trace::Ended{});
  return recorder;
}

// Of all records; the error's message, or "".
std::string replayed(const std::vector<Record>& records, ReplayCounts* counts = nullptr) {
  Replay replay(0);
  Status status;
  for (const Record& record : records) {
    if (status) status = replay.add(record);
  }
  if (status) status = replay.finish();
  if (counts != nullptr) *counts = replay.counts();
  return status ? "" : status.error().message;
}

template <class Entry>
size_t first_of(const std::vector<Record>& records, size_t from = 0) {
  while (!std::holds_alternative<Entry>(records.at(from).entry)) ++from;
  return from;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Replay, EveryDecisionIsMadeAgainFromTheFile) {
  const laneway::testing::ScratchFolder folder;
  uint64_t actions = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const Recorder recorder = record_of(seed, 12);
    const std::string path = folder.path() + "/" + std::to_string(seed);
    recorder.write(path);
    const auto counts = replay(path);
    ASSERT_TRUE(counts.ok()) << seed << ": " << counts.error().message;
    EXPECT_EQ(counts.value().brokers, 1u);
    EXPECT_EQ(counts.value().cores, 1u);
    EXPECT_EQ(counts.value().lost, 0u);
    EXPECT_TRUE(counts.value().ended);
    uint64_t heard = 0;
    uint64_t decided = 0;
    for (const Record& record : recorder.records) {
      heard += std::holds_alternative<trace::Heard>(record.entry);
      decided += std::holds_alternative<trace::Decided>(record.entry);
    }
    EXPECT_EQ(counts.value().events, heard);
    EXPECT_EQ(counts.value().actions, decided);
    actions += decided;
  }
  EXPECT_GT(actions, 1'000u);
}

TEST(Replay, AChangedConfigurationDecidesOtherwiseAndIsNamed) {
  Recorder recorder = record_of(3, 12);
  ASSERT_EQ(replayed(recorder.records), "");
  const size_t began = first_of<trace::CoreBegan>(recorder.records);
  auto& core = std::get<trace::CoreBegan>(recorder.records[began].entry);
  core.config.capacity = mib(120);
  EXPECT_THAT(replayed(recorder.records), HasSubstr("differs: recorded \"decided "));
}

TEST(Replay, ADecisionThatDiffersIsNamedWithBoth) {
  const Recorder recorder = record_of(4, 12);
  ReplayCounts before;
  for (size_t i = 0; i < recorder.records.size(); ++i) {
    std::vector<Record> changed = recorder.records;
    auto* decided = std::get_if<trace::Decided>(&changed[i].entry);
    auto* grant = decided == nullptr ? nullptr : std::get_if<lanes::GrantTurn>(&decided->action);
    if (grant == nullptr) continue;
    ++grant->turn.envelope.budget.iterations;
    const std::string error = replayed(changed, &before);
    EXPECT_THAT(error, HasSubstr("recorded \"decided GrantTurn turn"));
    EXPECT_THAT(error, HasSubstr("now \"decided GrantTurn turn"));
    EXPECT_THAT(error, HasSubstr(service::time_text(changed[i].time_ns)));
    // What no line shows differs as well.
    --grant->turn.envelope.budget.iterations;
    grant->turn.envelope.lingers += Duration(1);
    EXPECT_THAT(replayed(changed), HasSubstr("other numbers differ"));
  }
  EXPECT_GT(before.instants, 10u) << "some turn was granted";
}

TEST(Replay, OneDecisionTooManyOrTooFewIsNamed) {
  const Recorder recorder = record_of(5, 6);
  const size_t at = first_of<trace::Decided>(recorder.records);
  size_t call = at;
  while (!std::holds_alternative<trace::Handled>(recorder.records[call].entry)) --call;
  std::vector<Record> more = recorder.records;
  more.insert(more.begin() + static_cast<std::ptrdiff_t>(at), more[at]);
  ++std::get<trace::Handled>(more[call].entry).actions;
  EXPECT_THAT(replayed(more), HasSubstr("decision "));
  std::vector<Record> fewer = recorder.records;
  size_t last = at;
  while (std::holds_alternative<trace::Decided>(fewer[last + 1].entry)) ++last;
  fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(last));
  --std::get<trace::Handled>(fewer[call].entry).actions;
  EXPECT_THAT(replayed(fewer), HasSubstr("recorded \"nothing more\", now \"decided "));
}

TEST(Replay, AFileWithOneByteChangedIsRefused) {
  const laneway::testing::ScratchFolder folder;
  const std::string path = folder.path() + "/record";
  record_of(6, 1).write(path);
  const std::string whole = bytes_of(path);
  ASSERT_TRUE(replay(path).ok());
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (at % 2 == 0 ? 0x01 : 0x80));
    std::ofstream(path, std::ios::binary | std::ios::trunc) << changed;
    const auto counts = replay(path);
    ASSERT_FALSE(counts.ok()) << "byte " << at;
    EXPECT_THAT(counts.error().message, HasSubstr(path)) << at;
  }
}

TEST(Replay, AFileThatWasCutSaysSo) {
  const laneway::testing::ScratchFolder folder;
  const std::string path = folder.path() + "/record";
  record_of(7, 1).write(path);
  const std::string whole = bytes_of(path);
  size_t refused = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    const auto counts = replay(path);
    refused += counts.ok() ? 0 : 1;
    if (!counts.ok()) continue;
    EXPECT_FALSE(counts.value().ended) << size;
  }
  EXPECT_GT(refused, whole.size() * 9 / 10) << "only between two calls it can be repeated so far";
}

TEST(Replay, BehindALossNothingIsComparedUntilAnotherCoreBegins) {
  const Recorder first = record_of(8, 6);
  const Recorder second = record_of(9, 6);
  std::vector<Record> records(first.records.begin(), first.records.end() - 1);
  const size_t calls =
      static_cast<size_t>(std::count_if(records.begin(), records.end(), [](const Record& record) {
        return std::holds_alternative<trace::Handled>(record.entry);
      }));
  ASSERT_GT(calls, 12u);
  // The sixth call is lost from its second record on, and with it the seventh.
  size_t from = 0;
  for (int call = 0; call < 6; ++call) from = first_of<trace::Handled>(records, from) + 1;
  size_t to = first_of<trace::Handled>(records, from);
  to = first_of<trace::Handled>(records, to + 1);
  const auto begin = records.begin();
  const Record lost{.time_ns = records[to].time_ns,
                    .entry = trace::Lost{.records = to - from, .iterations = 0}};
  records.erase(begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to));
  records.insert(records.begin() + static_cast<std::ptrdiff_t>(from), lost);
  records.insert(records.end(), second.records.begin() + 1, second.records.end());
  ReplayCounts counts;
  EXPECT_EQ(replayed(records, &counts), "");
  EXPECT_EQ(counts.cores, 2u);
  EXPECT_EQ(counts.lost, to - from);
  EXPECT_EQ(counts.skipped, calls - 7);
  ReplayCounts of_second;
  EXPECT_EQ(replayed(second.records, &of_second), "");
  EXPECT_EQ(counts.instants, 5 + of_second.instants);
  EXPECT_THAT(replay_text(counts), HasSubstr("lost for want of room"));
}

TEST(Replay, WhatNoServiceWritesIsRefusedByName) {
  const auto at = [](trace::Entry entry) {
    return Record{.time_ns = 1'500'000'000, .entry = std::move(entry)};
  };
  const trace::Heard timer{lanes::TimerFired{}};
  lanes::SchedulerConfig config;
  config.capacity = mib(1);
  EXPECT_THAT(replayed({at(trace::Handled{1, 0})}), HasSubstr("+1.500000000 s a core was called"));
  EXPECT_THAT(replayed({at(timer)}), HasSubstr("heard an event in no call"));
  EXPECT_THAT(replayed({at(trace::Decided{lanes::DropCopy{}})}), HasSubstr("in no call"));
  EXPECT_THAT(replayed({at(trace::PolicySet{"fifo"})}), HasSubstr("before a core began"));
  const Record began = at(trace::CoreBegan{config, "fifo"});
  EXPECT_EQ(replayed({began}), "");
  EXPECT_THAT(replayed({at(trace::CoreBegan{config, "lottery"})}), HasSubstr("lottery"));
  EXPECT_THAT(replayed({began, at(trace::PolicySet{"lottery"})}), HasSubstr("lottery"));
  EXPECT_THAT(replayed({began, at(trace::Handled{0, 1})}), HasSubstr("without an event"));
  EXPECT_THAT(replayed({began, at(trace::Handled{2, 1}), at(timer)}),
              HasSubstr("1 of 2 events and 0 of 1 decisions are there"));
  EXPECT_THAT(replayed({began, at(trace::Handled{2, 1}), at(trace::Handled{1, 0})}),
              HasSubstr("ends within a call"));
  const auto refused = [&](auto change) {
    lanes::SchedulerConfig wrong = config;
    change(wrong);
    return replayed({at(trace::CoreBegan{wrong, "fifo"})});
  };
  EXPECT_THAT(refused([](auto& wrong) { wrong.max_lanes = 65; }), HasSubstr("65 lanes"));
  EXPECT_THAT(refused([](auto& wrong) { wrong.max_lanes = 0; }), HasSubstr("0 lanes"));
  EXPECT_THAT(refused([](auto& wrong) { wrong.alignment = 48; }), HasSubstr("alignment 48"));
  EXPECT_THAT(refused([](auto& wrong) { wrong.reserve = mib(1); }), HasSubstr("a reserve"));
  EXPECT_THAT(refused([](auto& wrong) { wrong.spill = Bytes(-1); }), HasSubstr("a size below"));
  EXPECT_THAT(refused([](auto& wrong) { wrong.budget = {}; }), HasSubstr("without a bound"));
  EXPECT_THAT(refused([](auto& wrong) { wrong.check_every = 0; }), HasSubstr("never checked"));
}

// Answers what must be answered at once, and keeps the turns.
class Worker final : public lanes::ActionSink {
 public:
  void carry_out(const std::vector<lanes::Action>& actions) override {
    for (const lanes::Action& action : actions) {
      if (const auto* place = std::get_if<lanes::PlaceImage>(&action)) {
        loop->post(lanes::ImagePlaced{place->job});
      } else if (const auto* grant = std::get_if<lanes::GrantTurn>(&action)) {
        turns.push_back(grant->turn);
      }
    }
  }
  lanes::CoreLoop* loop = nullptr;
  std::vector<lanes::Turn> turns;
};

// Through the front that a service has: a policy that changes while others wait, and a core that is
// made from a report.
TEST(Replay, TheFrontOfTheCoreTellsAllThatIsNeeded) {
  lanes::SchedulerConfig config;
  config.capacity = mib(64);
  config.max_lanes = 1;
  ManualClock clock;
  Recorder recorder;
  Worker worker;
  const auto begin = [&](const std::string& policy) {
    recorder.note(clock.now(), trace::CoreBegan{config, policy});
    auto core = std::make_unique<lanes::Scheduler>(config, policies::make_policy(policy).value());
    auto loop = std::make_unique<lanes::CoreLoop>(std::move(core), clock, worker,
                                                  lanes::CoreLoop::Timer::cranked);
    worker.loop = loop.get();
    loop->observe(&recorder);
    return loop;
  };
  auto loop = begin("fifo");
  lanes::JobOffered offer;
  offer.persistent = offer.ephemeral = mib(4);
  for (const uint64_t job : {1, 2, 3}) {
    offer.job = JobId(job);
    offer.options.priority = static_cast<int32_t>(job);
    loop->post(offer);
    loop->post(lanes::WorkReady{offer.job});
    clock.advance(milliseconds(1));
  }
  const auto end_turn = [&] {
    lanes::TurnEnded ended;
    ended.turn = worker.turns.back().id;
    ended.end = lanes::TurnEnd::budget;
    ended.iterations = 1;
    ended.busy = milliseconds(1);
    ended.more_ready = true;
    clock.advance(milliseconds(1));
    loop->post(ended);
  };
  end_turn();
  loop->set_policy(policies::make_policy("priority").value(), "priority");
  end_turn();
  EXPECT_EQ(worker.turns.back().job, JobId(3)) << "the most urgent one";
  clock.advance(seconds(2));
  loop->fire_due();
  EXPECT_EQ(replayed(recorder.records), "");

  loop = begin("priority");
  lanes::WorkerReported reported;
  reported.report.last_turn = worker.turns.back().id;
  reported.report.jobs.emplace_back().offer = offer;
  reported.report.jobs.back().ready = true;
  loop->post(reported);
  EXPECT_EQ(worker.turns.back().job, JobId(3));
  ReplayCounts counts;
  EXPECT_EQ(replayed(recorder.records, &counts), "");
  EXPECT_EQ(counts.cores, 2u);
  EXPECT_EQ(counts.policies, 1u);

  // Without the change of policy the next turn is another job's.
  std::vector<Record> without = recorder.records;
  without.erase(without.begin() + static_cast<std::ptrdiff_t>(first_of<trace::PolicySet>(without)));
  EXPECT_THAT(replayed(without), HasSubstr("differs"));
}

}  // namespace
}  // namespace laneway::simulator
