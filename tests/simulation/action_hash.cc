#include "tests/simulation/action_hash.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

void ActionHash::mix(const Reason& reason) {
  mix(static_cast<uint64_t>(reason.code));
  for (const Bytes bytes :
       {reason.persistent, reason.region, reason.capacity, reason.claimed, reason.largest_free}) {
    mix(bytes);
  }
  mix(uint64_t{reason.position});
  mix(reason.lane.value());
  mix(reason.behind.value());
}

void ActionHash::mix(const Turn& turn) {
  mix(turn.id.value());
  mix(turn.lane.value());
  mix(turn.job.value());
  mix(turn.envelope.region.value());
  mix(turn.envelope.base);
  mix(turn.envelope.ceiling);
  mix(turn.envelope.budget.iterations);
  mix(static_cast<uint64_t>(turn.envelope.budget.slice.ns()));
  mix(turn.envelope.interrupts);
  mix(turn.envelope.yields_to);
}

void ActionHash::mix(const TellPolicy& action) {
  mix(action.facts.job.value());
  mix(uint64_t{action.gone});
  mix(static_cast<uint64_t>(action.facts.busy.ns()));
  mix(static_cast<uint64_t>(action.facts.waiting.ns()));
}

void ActionHash::mix(const KeepLearnt& action) {
  mix(action.job.value());
  mix(action.learnt.policy);
  mix(action.learnt.lane.value());
  mix(static_cast<uint64_t>(action.learnt.note.first));
  mix(static_cast<uint64_t>(action.learnt.note.second));
}

void ActionHash::add(const Action& action) {
  mix(uint64_t{action.index()});
  if (const auto* it = std::get_if<AdmitJob>(&action)) {
    mix(it->job.value());
    mix(it->lane.value());
  } else if (const auto* change = std::get_if<ChangeLane>(&action)) {
    mix(change->job.value());
    mix(change->lane.value());
  } else if (const auto* learnt = std::get_if<KeepLearnt>(&action)) {
    mix(*learnt);
  } else if (const auto* tell = std::get_if<TellPolicy>(&action)) {
    mix(*tell);
  } else if (const auto* queue = std::get_if<QueueJob>(&action)) {
    mix(queue->job.value());
    mix(queue->reason);
  } else if (const auto* refuse = std::get_if<RefuseJob>(&action)) {
    mix(refuse->job.value());
    mix(refuse->reason);
  } else if (const auto* work = std::get_if<RefuseWork>(&action)) {
    mix(work->job.value());
    mix(work->reason);
  } else if (const auto* place = std::get_if<PlaceImage>(&action)) {
    mix(place->job.value());
    mix(place->offset);
    mix(place->size);
    mix(place->prefix.offset);
    mix(place->prefix.size);
  } else if (const auto* move = std::get_if<MoveImage>(&action)) {
    mix(move->job.value());
    mix(move->offset);
    mix(move->size);
  } else if (const auto* pool = std::get_if<ResizePool>(&action)) {
    mix(pool->capacity);
  } else if (const auto* drop = std::get_if<DropImage>(&action)) {
    mix(drop->job.value());
  } else if (const auto* evict = std::get_if<EvictImage>(&action)) {
    mix(evict->job.value());
    mix(static_cast<uint64_t>(evict->to.tier));
    mix(evict->to.offset);
    mix(evict->size);
    mix(evict->keep);
  } else if (const auto* save = std::get_if<SaveImage>(&action)) {
    mix(save->job.value());
    mix(save->to.offset);
    mix(save->size);
  } else if (const auto* copy = std::get_if<DropCopy>(&action)) {
    mix(copy->job.value());
  } else if (const auto* prefix = std::get_if<DropPrefix>(&action)) {
    mix(prefix->job.value());
  } else if (const auto* open = std::get_if<OpenRegion>(&action)) {
    mix(open->region.value());
    mix(open->lane.value());
    mix(open->offset);
    mix(open->size);
  } else if (const auto* resize = std::get_if<ResizeRegion>(&action)) {
    mix(resize->region.value());
    mix(resize->offset);
    mix(resize->size);
  } else if (const auto* close = std::get_if<CloseRegion>(&action)) {
    mix(close->region.value());
  } else if (const auto* grant = std::get_if<GrantTurn>(&action)) {
    mix(grant->turn);
  } else if (const auto* recall = std::get_if<RecallTurn>(&action)) {
    mix(recall->turn.value());
    mix(recall->lane.value());
    mix(static_cast<uint64_t>(recall->latest.ns()));
  }
}

}  // namespace laneway::simulation
