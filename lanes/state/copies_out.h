// CopiesOut: what is on its way out of the pool to one tier, and whether it is late. Copies have a
// deadline of ten times what all that go there should take by lately measured rates, and at least
// kLeastCopyPatience, and so have those that come back from there. A tier one of whose copies is
// late stalls: nobody else is sent there until it has ended.
#pragma once

#include "base/time.h"
#include "lanes/pool/outside_place.h"
#include "lanes/state/core_state.h"
#include "policies/transfer_rates.h"

namespace laneway::lanes {

inline constexpr Duration kLeastCopyPatience = seconds(5);

struct CopiesOut {
  bool any = false;                          // some are under way
  TimePoint late_from = TimePoint::never();  // counted from the one that began first
};

CopiesOut copies_out(const CoreState& core, Tier tier);
PerTier<CopiesOut> copies_out(const CoreState& core);  // of each that holds copies
bool stalls(const CoreState& core, Tier tier);

// How images go to a tier; and come from there, or (none) from the client. What is measured of
// each way is policies::TransferRates'.
policies::Way way_out(Tier tier);
policies::Way way_in(Tier tier);

}  // namespace laneway::lanes
