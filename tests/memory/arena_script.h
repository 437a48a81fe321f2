// An iteration as a script of events, and a player that runs it on a LaneArena while watching from
// outside: every address lies in the lane, is aligned, overlaps nothing that is alive, and keeps
// the bytes that were written there until it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "memory/lane_arena.h"
#include "memory/tape.h"

namespace laneway::testing {

struct ScriptEvent {
  bool is_free = false;
  uint32_t key = 0;    // which allocation
  uint64_t bytes = 0;  // of an allocation
  friend auto operator<=>(const ScriptEvent&, const ScriptEvent&) = default;
};
using Script = std::vector<ScriptEvent>;

Script script_of(const memory::AllocationTape& tape);
// The tape that a probe of this script must record.
memory::AllocationTape tape_of(const Script& script);
// Equal for scripts that differ only in the order of frees between two allocations.
Script canonical(Script script);
bool equal(const memory::AllocationTape& a, const memory::AllocationTape& b);

// Memory for a lane, aligned to a page.
class LaneMemory {
 public:
  explicit LaneMemory(Bytes bytes);
  std::byte* base() { return base_; }

 private:
  std::vector<std::byte> storage_;
  std::byte* base_;
};

class ScriptPlayer {
 public:
  ScriptPlayer(memory::LaneArena& arena, std::byte* base) : arena_(arena), base_(base) {}

  // Runs one event; records a test failure when the arena misbehaves. False when an allocation did
  // not fit.
  bool play(const ScriptEvent& event, bool free_remotely = false);
  // Runs events until one does not fit; the position of that one, or the script's size.
  size_t play(const Script& script);
  void free_all();
  size_t live() const { return live_.size(); }
  // Of each allocation made so far, in order.
  const std::vector<uint64_t>& offsets() const { return offsets_; }

 private:
  struct Live {
    uint64_t offset;
    uint64_t bytes;
    unsigned char pattern;
  };
  void check_new(uint64_t offset, uint64_t bytes);

  memory::LaneArena& arena_;
  std::byte* base_;
  std::map<uint32_t, Live> live_;  // by key
  std::vector<uint64_t> offsets_;
};

}  // namespace laneway::testing
