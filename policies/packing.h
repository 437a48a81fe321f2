// Packing: as many jobs as the memory holds. Fifo that fills gaps: while the earliest waiting job
// finds no room, the earliest that does is admitted. They compute in as many lanes as pay by the
// core's measure, in a lane by arrival. When memory is short: as fifo.
//
// Source: the PACK policy of Salus (Yu and Chowdhury, "Fine-Grained GPU Sharing Primitives for Deep
// Learning Applications", MLSys 2020, section 4), which packs jobs for the shortest makespan.
// Knows: arrival, and when an image was used last.
// Bound: CommonRules: who is passed over gets its reservation.
#pragma once

#include "policies/fifo.h"

namespace laneway::policies {

class Packing final : public Fifo {
 public:
  Packing();
  std::string_view name() const override { return "packing"; }
};

}  // namespace laneway::policies
