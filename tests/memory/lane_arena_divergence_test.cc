// Shows that a planned iteration that does something else than its tape is caught at every
// position and stays safe: at each event of a script one change is made (another size, an extra
// allocation, one left out, a free moved or exchanged with another, the end moved forward), the
// changed script is played on the plan of the old one under ScriptPlayer's eyes, and the arena must
// tell that it left the tape exactly when the two scripts differ in more than the order of frees
// between two allocations, and hand back the tape of what really happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "memory/planner.h"
#include "tests/memory/arena_script.h"
#include "tests/memory/random_tapes.h"
#include "tests/support/seed.h"

namespace laneway::memory {
namespace {

using testing::Script;
using testing::ScriptEvent;

constexpr uint32_t kNewKey = 1'000'000;

// Whether every free follows its allocation, once.
bool playable(const Script& script) {
  std::set<uint32_t> live;
  for (const ScriptEvent& event : script) {
    const bool fine = event.is_free ? live.erase(event.key) == 1 : live.insert(event.key).second;
    if (!fine) return false;
  }
  return live.empty();
}

ptrdiff_t at(size_t position) { return static_cast<ptrdiff_t>(position); }

// All scripts that differ from `script` by one change at `position`.
std::vector<Script> changes_at(const Script& script, size_t position, Random& random) {
  std::vector<Script> changed;
  const auto add = [&](Script made) {
    if (playable(made)) changed.push_back(std::move(made));
  };
  Script other = script;
  other.insert(other.begin() + at(position), {{false, kNewKey, 100}, {true, kNewKey, 0}});
  add(other);  // a temporary more
  other = script;
  other.insert(other.begin() + at(position), {false, kNewKey, 700});
  other.push_back({true, kNewKey, 0});
  add(other);  // an allocation more, alive to the end
  other.assign(script.begin(), script.begin() + at(position));
  std::set<uint32_t> live;
  for (const ScriptEvent& event : other) {
    event.is_free ? (void)live.erase(event.key) : (void)live.insert(event.key);
  }
  for (const uint32_t key : live) other.push_back({true, key, 0});
  add(other);  // ends here
  if (position == script.size()) return changed;
  if (!script[position].is_free) {
    for (const uint64_t bytes : {script[position].bytes + 1, script[position].bytes / 2}) {
      other = script;
      other[position].bytes = bytes;
      add(other);  // another size
    }
    other = script;
    std::erase_if(other, [&](const ScriptEvent& e) { return e.key == script[position].key; });
    add(other);  // left out
    return changed;
  }
  for (size_t target = 0; target < script.size(); ++target) {
    if (std::max(target, position) - std::min(target, position) > 6 && !random.chance(0.05)) {
      continue;
    }
    other = script;
    other.erase(other.begin() + at(position));
    other.insert(other.begin() + at(target), script[position]);
    add(other);  // freed earlier or later
    if (script[target].is_free) {
      other = script;
      std::swap(other[position], other[target]);
      add(other);  // as many frees everywhere, but of others
    }
  }
  return changed;
}

void play_changed(LaneArena& arena, std::byte* base, const Script& script, const Script& changed,
                  const std::shared_ptr<const PlannedTape>& replay, bool remotely) {
  arena.begin_planned(replay);
  testing::ScriptPlayer player(arena, base);
  for (const ScriptEvent& event : changed) {
    ASSERT_TRUE(player.play(event, remotely && event.is_free && event.key % 3 == 0));
  }
  const LaneArena::Use use = arena.end();
  EXPECT_EQ(use.live_count, 0u);
  EXPECT_EQ(use.allocations, tape_of(changed).allocations.size());
  const bool differs = canonical(script) != canonical(changed);
  EXPECT_EQ(use.went_off_tape, differs);
  EXPECT_EQ(use.tape.has_value(), differs);
  if (differs && !remotely) {
    // Before the difference, frees may stand in the taped order rather than in the real one.
    EXPECT_EQ(canonical(testing::script_of(*use.tape)),
              canonical(testing::script_of(tape_of(changed))));
  }
}

class Divergence : public ::testing::TestWithParam<bool> {};

TEST_P(Divergence, IsCaughtAtEveryPosition) {
  Random random(testing::seed_from_environment(20));
  for (int round = 0; round < 4; ++round) {
    const AllocationTape tape =
        round % 2 == 0 ? testing::random_tape(random, {.allocations = 40, .largest = 900})
                       : testing::random_tape(
                             random, {.allocations = 40, .largest = 200, .free_chance = 0.45});
    const auto replay = make_planned_tape(tape, plan_tape(tape, {.pairs = 10'000}));
    const Script script = testing::script_of(tape);
    testing::LaneMemory memory(kib(256));
    LaneArena arena(64, GetParam() ? std::optional(LaneArena::kPoison) : std::nullopt);
    arena.bind(memory.base(), kib(256));
    size_t played = 0;
    for (size_t position = 0; position <= script.size(); ++position) {
      for (const Script& changed : changes_at(script, position, random)) {
        play_changed(arena, memory.base(), script, changed, replay, false);
        if (HasFatalFailure()) return;
        if (++played % 40 == 0) play_changed(arena, memory.base(), script, changed, replay, true);
      }
    }
    EXPECT_GT(played, script.size() * 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Poison, Divergence, ::testing::Bool());

}  // namespace
}  // namespace laneway::memory
