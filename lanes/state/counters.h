// Counters: what the core has done since it began, for whoever watches a service; the core decides
// nothing by it. They only grow. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "lanes/pool/outside_place.h"
#include "lanes/state/reason.h"

namespace laneway::lanes {

// One for each tier outside of the pool.
struct TierCounts {
  uint64_t store = 0;
  uint64_t spill = 0;
  // Of an image whose copy is in no tier, nothing is counted.
  void add(Tier tier) {
    if (tier == Tier::store) ++store;
    if (tier == Tier::spill) ++spill;
  }
};

struct Counters {
  uint64_t turns = 0;    // that were granted
  TierCounts evictions;  // images that left the pool
  TierCounts returns;    // … and came back, from there
  // Bytes of images that were copied: out of the pool (also ahead of need), into it (first bytes
  // included), and inside it.
  Bytes moved_out;
  Bytes moved_in;
  Bytes moved_inside;
  std::array<uint64_t, kReasonCodeCount> refusals{};  // of jobs and of their work, by ReasonCode

  void refused(ReasonCode code) { ++refusals.at(static_cast<size_t>(code)); }
  Counters& operator+=(const Counters& more) {
    turns += more.turns;
    evictions.store += more.evictions.store;
    evictions.spill += more.evictions.spill;
    returns.store += more.returns.store;
    returns.spill += more.returns.spill;
    moved_out += more.moved_out;
    moved_in += more.moved_in;
    moved_inside += more.moved_inside;
    for (size_t i = 0; i < refusals.size(); ++i) refusals[i] += more.refusals[i];
    return *this;
  }
};

}  // namespace laneway::lanes
