// Shows the arena's contract with scripts of allocations and frees, watched from outside by
// ScriptPlayer: a probe records exactly what happened, a planned iteration gets the planned
// addresses every time, memory that does not fit is refused and nothing is lost, and what outlives
// an iteration stays intact.
#include "memory/lane_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "memory/planner.h"
#include "tests/memory/arena_script.h"
#include "tests/memory/random_tapes.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

using testing::LaneMemory;
using testing::Script;
using testing::ScriptPlayer;

std::shared_ptr<const PlannedTape> planned(const AllocationTape& tape) {
  return make_planned_tape(tape, plan_tape(tape, {.pairs = 100'000}));
}

TEST(LaneArena, ProbeRecordsTheTapeAndReachesTheSimulatedHeight) {
  Random random(testing::seed_from_environment(10));
  for (int round = 0; round < 30; ++round) {
    const AllocationTape tape =
        testing::random_tape(random, {.allocations = 120, .largest = 5'000});
    const Bytes height = simulate_best_fit(tape, 64);
    LaneMemory memory(height);
    LaneArena arena(64);
    arena.bind(memory.base(), height);  // exactly what the simulation says is enough
    arena.begin_probe();
    ScriptPlayer player(arena, memory.base());
    const Script script = testing::script_of(tape);
    ASSERT_EQ(player.play(script), script.size());
    const LaneArena::Use use = arena.end();
    EXPECT_EQ(use.peak, height);
    EXPECT_EQ(use.allocations, tape.allocations.size());
    EXPECT_EQ(use.live_count, 0u);
    EXPECT_FALSE(use.went_off_tape);
    ASSERT_TRUE(use.tape.has_value());
    EXPECT_TRUE(testing::equal(*use.tape, tape));
  }
}

TEST(LaneArena, PlannedAddressesAreThePlansInEveryIteration) {
  Random random(testing::seed_from_environment(11));
  const AllocationTape tape = testing::training_tape(random, 6);
  const auto replay = planned(tape);
  const Bytes capacity = replay->plan.peak;
  LaneMemory memory(capacity);
  LaneArena arena(64);
  arena.bind(memory.base(), capacity);
  for (int iteration = 0; iteration < 5; ++iteration) {
    arena.begin_planned(replay);
    ScriptPlayer player(arena, memory.base());
    player.play(testing::script_of(tape));
    const LaneArena::Use use = arena.end();
    EXPECT_EQ(player.offsets(), replay->plan.offsets);
    EXPECT_FALSE(use.went_off_tape);
    EXPECT_FALSE(use.tape.has_value());
    EXPECT_EQ(use.peak, capacity);
    EXPECT_EQ(use.allocations, tape.allocations.size());
    EXPECT_EQ(use.live_count, 0u);
  }
}

TEST(LaneArena, WhatDoesNotFitIsRefusedAndTheLaneStaysUsable) {
  Random random(testing::seed_from_environment(12));
  const AllocationTape tape = testing::random_tape(random, {.allocations = 60, .largest = 3'000});
  const auto replay = planned(tape);
  const Script script = testing::script_of(tape);
  const int64_t whole = simulate_best_fit(tape, 64).count();
  LaneMemory memory((Bytes(whole)));
  LaneArena arena(64);
  for (int64_t capacity = 0; capacity < replay->plan.peak.count(); capacity += 64) {
    arena.bind(memory.base(), Bytes(capacity));
    for (const bool use_plan : {false, true}) {
      use_plan ? arena.begin_planned(replay) : arena.begin_probe();
      EXPECT_FALSE(arena.headroom().plan_covers_rest);
      ScriptPlayer player(arena, memory.base());
      EXPECT_LT(player.play(script), script.size()) << "lower than any plan";
      player.free_all();
      const LaneArena::Use use = arena.abandon();
      EXPECT_EQ(use.live_count, 0u);
      EXPECT_FALSE(use.tape.has_value());
      EXPECT_FALSE(use.went_off_tape);
      EXPECT_LE(use.peak.count(), capacity);
    }
  }
  arena.bind(memory.base(), Bytes(whole));
  arena.begin_planned(replay);
  ScriptPlayer player(arena, memory.base());
  EXPECT_EQ(player.play(script), script.size());
  EXPECT_FALSE(arena.end().went_off_tape);
}

TEST(LaneArena, AbandonAtEveryEventLeavesNothing) {
  Random random(testing::seed_from_environment(13));
  const AllocationTape tape = testing::random_tape(random, {.allocations = 40, .largest = 2'000});
  const auto replay = planned(tape);
  const Script script = testing::script_of(tape);
  LaneMemory memory(replay->plan.peak);
  LaneArena arena(64);
  arena.bind(memory.base(), replay->plan.peak);
  for (size_t stop = 0; stop <= script.size(); ++stop) {
    arena.begin_planned(replay);
    ScriptPlayer player(arena, memory.base());
    player.play(Script(script.begin(), script.begin() + static_cast<ptrdiff_t>(stop)));
    player.free_all();
    EXPECT_EQ(arena.abandon().live_count, 0u);
    arena.begin_planned(replay);
    ScriptPlayer again(arena, memory.base());
    again.play(script);
    EXPECT_FALSE(arena.end().went_off_tape);
    EXPECT_EQ(again.offsets(), replay->plan.offsets);
  }
}

TEST(LaneArena, MemoryThatOutlivesItsIterationStaysIntact) {
  LaneMemory memory(kib(64));
  LaneArena arena(64);
  arena.bind(memory.base(), kib(64));
  arena.begin_probe();
  auto* kept = static_cast<std::byte*>(arena.allocate(1000));
  std::memset(kept, 0x5a, 1000);
  const LaneArena::Use use = arena.end();
  EXPECT_EQ(use.live_count, 1u);
  EXPECT_EQ(use.live_bytes, Bytes(1000));
  ASSERT_TRUE(use.tape.has_value());
  EXPECT_TRUE(use.tape->frees.empty());

  const AllocationTape tape{{{500, 0}, {1000, 0}}, {0, 1}};
  arena.begin_planned(planned(tape));  // whose offsets would hit `kept`
  ScriptPlayer player(arena, memory.base());
  player.play(testing::script_of(tape));
  const LaneArena::Use second = arena.end();
  EXPECT_TRUE(second.went_off_tape);
  EXPECT_EQ(second.live_count, 1u);
  EXPECT_TRUE(testing::equal(*second.tape, tape)) << "the older allocation is not in the tape";
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(kept[i], std::byte{0x5a});

  arena.free(kept);
  arena.begin_planned(planned(tape));
  ScriptPlayer third(arena, memory.base());
  third.play(testing::script_of(tape));
  EXPECT_FALSE(arena.end().went_off_tape);
}

TEST(LaneArena, TapesThatLeaveBytesAliveAreReplayedAndReported) {
  const AllocationTape tape{{{100, 0}, {100, 0}}, {0}};
  LaneMemory memory(kib(1));
  LaneArena arena(64);
  arena.bind(memory.base(), kib(1));
  arena.begin_planned(planned(tape));
  void* first = arena.allocate(100);
  void* second = arena.allocate(100);
  arena.free(first);
  const LaneArena::Use use = arena.end();
  EXPECT_FALSE(use.went_off_tape);
  EXPECT_EQ(use.live_count, 1u);
  EXPECT_EQ(use.live_bytes, Bytes(100));
  arena.free(second);
  arena.bind(memory.base(), kib(1));  // nothing is alive any more
}

TEST(LaneArena, FreesFromOtherThreadsKeepTheTape) {
  Random random(testing::seed_from_environment(14));
  const AllocationTape tape = testing::random_tape(random, {.allocations = 60, .largest = 1'000});
  const auto replay = planned(tape);
  LaneMemory memory(replay->plan.peak);
  LaneArena arena(64);
  arena.bind(memory.base(), replay->plan.peak);
  arena.begin_planned(replay);
  ScriptPlayer player(arena, memory.base());
  for (const auto& event : testing::script_of(tape)) player.play(event, random.chance(0.3));
  const LaneArena::Use use = arena.end();
  EXPECT_FALSE(use.went_off_tape);
  EXPECT_EQ(use.live_count, 0u);
  EXPECT_EQ(player.offsets(), replay->plan.offsets);
}

TEST(LaneArena, FreesArriveFromAThreadThatRunsBeside) {
  LaneMemory memory(mib(1));
  LaneArena arena(64);
  arena.bind(memory.base(), mib(1));
  arena.begin_probe();
  std::vector<void*> made;
  for (int i = 0; i < 200; ++i) made.push_back(arena.allocate(64));
  std::thread other([&] {
    for (void* memory_to_free : made) arena.free_remote(memory_to_free);
  });
  for (int i = 0; i < 200; ++i) arena.free(arena.allocate(128));
  other.join();
  EXPECT_EQ(arena.end().live_count, 0u);
}

TEST(LaneArena, PoisonCoversFreshAndFreedBytes) {
  const AllocationTape tape{{{300, 0}, {200, 0}, {300, 1}}, {0, 1, 2}};
  LaneMemory memory(kib(4));
  LaneArena arena(64, LaneArena::kPoison);
  arena.bind(memory.base(), kib(4));
  const auto all_poison = [](const void* bytes, size_t count) {
    const auto* first = static_cast<const unsigned char*>(bytes);
    return std::all_of(first, first + count,
                       [](unsigned char byte) { return byte == LaneArena::kPoison; });
  };
  for (const bool use_plan : {false, true}) {
    std::memset(memory.base(), 1, 4096);
    use_plan ? arena.begin_planned(planned(tape)) : arena.begin_probe();
    void* first = arena.allocate(300);
    void* second = arena.allocate(200);
    EXPECT_TRUE(all_poison(first, 300));
    std::memset(first, 2, 300);
    std::memset(second, 3, 200);
    arena.free(first);
    EXPECT_TRUE(all_poison(first, 300));
    void* third = arena.allocate(300);
    EXPECT_TRUE(all_poison(third, 300));
    EXPECT_EQ(static_cast<unsigned char*>(second)[199], 3);
    arena.free(second);
    arena.free(third);
    EXPECT_FALSE(arena.end().went_off_tape);
  }
}

TEST(LaneArena, PoisonIsAskedForByTheEnvironment) {
  const char* before = std::getenv("LANEWAY_POISON");
  const std::string saved = before == nullptr ? "" : before;
  using Byte = std::optional<unsigned char>;
  const std::pair<const char*, Byte> cases[] = {
      {"1", Byte(0xCD)},    {"0x00", Byte(0)},       {"0xFF", Byte(0xFF)},
      {"0xa5", Byte(0xA5)}, {"0", std::nullopt},     {"", std::nullopt},
      {"0x", std::nullopt}, {"0x1ff", std::nullopt}, {"0x-1", std::nullopt}};
  for (const auto& [value, expected] : cases) {
    ::setenv("LANEWAY_POISON", value, 1);
    EXPECT_EQ(LaneArena::poison_asked_for(), expected) << value;
  }
  saved.empty() ? ::unsetenv("LANEWAY_POISON") : ::setenv("LANEWAY_POISON", saved.c_str(), 1);
}

TEST(LaneArena, HeadroomTellsWhatBestFitCanStillPlace) {
  LaneMemory memory(kib(8));
  LaneArena arena(64);
  arena.bind(memory.base(), kib(8));
  arena.begin_probe();
  EXPECT_EQ(arena.headroom().largest, kib(8));
  void* low = arena.allocate(2048);
  void* high = arena.allocate(1024);
  arena.free(low);
  EXPECT_EQ(arena.headroom().free, kib(7));
  EXPECT_EQ(arena.headroom().largest, kib(5));
  EXPECT_EQ(arena.allocate(5 * 1024 + 1), nullptr);
  void* rest = arena.allocate(5 * 1024);
  EXPECT_NE(rest, nullptr);
  EXPECT_EQ(arena.headroom().largest, kib(2));
  arena.free(high);
  arena.free(rest);
  EXPECT_EQ(arena.end().live_count, 0u);
}

TEST(LaneArena, ContainsExactlyItsBytes) {
  LaneMemory memory(kib(4));
  LaneArena arena(64);
  EXPECT_FALSE(arena.contains(memory.base()));
  arena.bind(memory.base(), kib(4));
  EXPECT_TRUE(arena.contains(memory.base()));
  EXPECT_TRUE(arena.contains(memory.base() + 4095));
  EXPECT_FALSE(arena.contains(memory.base() + 4096));
  EXPECT_FALSE(arena.contains(memory.base() - 1));
  EXPECT_FALSE(arena.contains(nullptr));
}

// Frees by other threads that have arrived count; abandoned iterations have no marks.
TEST(LaneArena, MarksSayWhereAProbesTapeStood) {
  LaneMemory memory(kib(4));
  LaneArena arena(64);
  arena.bind(memory.base(), kib(4));
  for (const bool abandoned : {true, false}) {
    arena.begin_probe();
    arena.mark();
    void* first = arena.allocate(10);
    void* second = arena.allocate(20);
    arena.mark();
    arena.free(first);
    arena.free_remote(second);
    arena.mark();
    LaneArena::Use use = abandoned ? arena.abandon() : arena.end();
    const std::vector<TapePosition> marks = {{0, 0}, {2, 0}, {2, 2}};
    EXPECT_EQ(use.marks, abandoned ? std::vector<TapePosition>() : marks);
  }
}

// Two blocks, one of them freed before the third is made. On the tape the marks are the tape's
// positions; off it, those of the new tape, from the first mark on. While frees have come in
// another order than the tape's no position is known, and one that is not known leaves no mark at
// all.
TEST(LaneArena, MarksSayWhereAPlannedIterationStands) {
  LaneMemory memory(kib(4));
  LaneArena arena(64);
  arena.bind(memory.base(), kib(4));
  const auto replay = planned(AllocationTape{{{10, 0}, {20, 0}, {30, 2}}, {0, 1, 2}});
  const auto run = [&](bool in_order, size_t last) {
    arena.begin_planned(replay);
    void* first = arena.allocate(10);
    void* second = arena.allocate(20);
    arena.mark();
    arena.free(in_order ? first : second);
    arena.mark();
    arena.free(in_order ? second : first);
    arena.free(arena.allocate(last));
    arena.mark();
    return arena.end();
  };
  using Marks = std::vector<TapePosition>;
  const LaneArena::Use on = run(/*in_order=*/true, 30);
  EXPECT_FALSE(on.went_off_tape);
  EXPECT_EQ(on.marks, Marks({{2, 0}, {2, 1}, {3, 3}}));
  const LaneArena::Use off = run(/*in_order=*/true, 31);
  EXPECT_TRUE(off.went_off_tape);
  EXPECT_EQ(off.marks, Marks({{2, 0}, {2, 1}, {3, 3}}));
  for (const size_t last : {30, 31}) EXPECT_EQ(run(/*in_order=*/false, last).marks, Marks());
  EXPECT_EQ(run(/*in_order=*/true, 30).marks.size(), 3U) << "a lost mark is that iteration's";
}

TEST(LaneArena, WhatIsSkippedOrGoneBackOverHasNoMarks) {
  LaneMemory memory(kib(4));
  LaneArena arena(64);
  arena.bind(memory.base(), kib(4));
  const auto replay = planned(AllocationTape{{{10, 0}, {20, 1}}, {0, 1}});
  arena.begin_planned(replay);
  arena.mark();
  arena.skip_rest();
  arena.mark();
  EXPECT_TRUE(arena.end().marks.empty());
  arena.begin_planned(replay);
  arena.mark();
  arena.free(arena.allocate(10));
  ASSERT_TRUE(arena.go_back({0, 0}));
  arena.free(arena.allocate(10));
  arena.free(arena.allocate(20));
  EXPECT_TRUE(arena.end().marks.empty());
}

TEST(LaneArenaDeath, MarkingOutsideAnIterationStopsTheProcess) {
  LaneArena arena(64);
  EXPECT_DEATH(arena.mark(), "outside an iteration");
}

TEST(LaneArenaDeath, FreeingTwiceStopsTheProcess) {
  LaneMemory memory(kib(4));
  LaneArena arena(64);
  arena.bind(memory.base(), kib(4));
  arena.begin_probe();
  void* once = arena.allocate(10);
  arena.free(once);
  EXPECT_DEATH(arena.free(once), "nothing is alive");
}

TEST(LaneArena, RefusesTheAskedForAllocationOfOneIterationProbedAndPlanned) {
  Random random(testing::seed_from_environment(12));
  const AllocationTape tape = testing::training_tape(random, 4);
  const auto replay = planned(tape);
  const Bytes capacity = std::max(simulate_best_fit(tape, 64), replay->plan.peak);
  LaneMemory memory(capacity);
  LaneArena arena(64);
  arena.bind(memory.base(), capacity);
  const Script script = testing::script_of(tape);
  for (const bool plan : {false, true}) {
    const auto begin = [&] { plan ? arena.begin_planned(replay) : arena.begin_probe(); };
    for (uint64_t refused = 0; refused < tape.allocations.size(); ++refused) {
      arena.refuse_at(refused);
      begin();
      ScriptPlayer stopped(arena, memory.base());
      EXPECT_LT(stopped.play(script), script.size());
      stopped.free_all();
      EXPECT_EQ(arena.abandon().allocations, refused);
      begin();
      ScriptPlayer player(arena, memory.base());
      EXPECT_EQ(player.play(script), script.size());
      EXPECT_EQ(arena.end().live_count, 0u);
    }
  }
}

}  // namespace
}  // namespace laneway::memory
