#include "service/worker/common/preemption.h"

namespace laneway::service {

using lanes::LaneSet;

bool Preemption::is_held(LaneId lane) const {
  const Place& place = at(lane);
  return !place.exempt && (place.yields_to & at_work_) != 0;
}

void Preemption::tell(Place& place) {
  const bool held = !place.exempt && (place.yields_to & at_work_) != 0;
  if (held) {
    place.word.set(lanes::control::kPause);
  } else if (place.word.any()) {
    place.word.clear(lanes::control::kPause);
    place.changed.notify_all();
  }
}

void Preemption::tell_those_below(LaneSet lane) {
  if ((urgent_ & lane) == 0) return;
  for (Place& place : places_) {
    if ((place.yields_to & lane) != 0) tell(place);
  }
}

void Preemption::granted(const lanes::Turn& turn) {
  const LaneSet self = lanes::set_of(turn.lane);
  const lanes::TurnEnvelope& envelope = turn.envelope;
  urgent_ = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const LaneSet lane = LaneSet{1} << i;
    const bool below = (envelope.interrupts & lane) != 0;
    if (lane == self) {
      place.yields_to = envelope.yields_to;
    } else {
      place.yields_to = below ? place.yields_to | self : place.yields_to & ~self;
    }
    urgent_ |= place.yields_to;
    tell(place);
  }
}

void Preemption::begin_work(LaneId lane) {
  const LaneSet self = lanes::set_of(lane);
  if ((at_work_ & self) != 0) return;
  at_work_ |= self;
  tell_those_below(self);
}

void Preemption::end_work(LaneId lane) {
  const LaneSet self = lanes::set_of(lane);
  if ((at_work_ & self) == 0) return;
  at_work_ &= ~self;
  tell_those_below(self);
}

void Preemption::exempt(LaneId lane, bool on) {
  Place& place = at(lane);
  if (place.exempt == on) return;
  place.exempt = on;
  tell(place);
}

void Preemption::stop(LaneId lane, uint32_t bit) {
  at(lane).word.set(bit);
  at(lane).changed.notify_all();
}

}  // namespace laneway::service
