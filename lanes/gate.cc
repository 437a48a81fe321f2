#include "lanes/gate.h"

#include <algorithm>

namespace laneway::lanes {
namespace {

// The most of the region that the point asks for: an iteration needs its whole reach to be let in
// or to commit, and its height with the allocation to allocate.
Bytes asked_height(GatePoint point, const GateLane& lane) {
  if (point == GatePoint::allocation) return lane.height;
  return std::max(lane.height, lane.reach);
}

GateOutcome off_plan_beside_partner(const GateLane& lane, const GatePartner& partner) {
  if (lane.in_commit) return GateOutcome::fail;
  // Two that are off their plans would hold for each other for ever: the younger gives way.
  if (partner.draining && partner.elder) return GateOutcome::give_way;
  return GateOutcome::off_tape_drain;
}

}  // namespace

GateOutcome gate(GatePoint point, Bytes region, const GateLane& lane, const GatePartner& partner) {
  const Bytes asked = asked_height(point, lane);
  if (!partner.running) return asked <= region ? GateOutcome::go : GateOutcome::grow;
  if (!lane.on_plan) return off_plan_beside_partner(lane, partner);
  if (asked > region) return GateOutcome::grow;
  // What is reserved by having entered the commit phase is never asked for again.
  if (!partner.elder || lane.in_commit) return GateOutcome::go;
  // An iteration starts at height zero, which fits beside everything; the start itself is bounded
  // by the policy's overlay of the two curves, not by safety.
  if (point == GatePoint::iteration_start) {
    return partner.draining ? GateOutcome::wait_partner : GateOutcome::go;
  }
  if (asked + partner.reach <= region) return GateOutcome::go;
  return partner.draining ? GateOutcome::give_way : GateOutcome::wait_partner;
}

}  // namespace laneway::lanes
