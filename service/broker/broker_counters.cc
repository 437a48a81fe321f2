#include "service/broker/broker_counters.h"

#include <utility>

#include "service/wire/codec.h"
#include "service/wire/held_counters.h"

namespace laneway::service {

Result<lanes::Counters> BrokerCounters::restore(std::span<const std::byte> note) {
  const auto counters = wire::decode_message<wire::held::Counters>(note);
  if (!counters) return counters.error();
  const uint64_t broker_deaths = counts_.broker_deaths;  // the supervisor knows
  counts_ = counters.value().service;
  counts_.broker_deaths = broker_deaths;
  return counters.value().core;
}

void BrokerCounters::worker_died(wire::WorkerRole role) {
  ++(role == wire::WorkerRole::active ? counts_.active_deaths : counts_.standby_deaths);
}

wire::ServiceCounters BrokerCounters::counts(uint64_t lost) const {
  wire::ServiceCounters all = counts_;
  all.lost_records += lost;
  return all;
}

void BrokerCounters::hold(const lanes::Counters& core, uint64_t lost) {
  std::vector<std::byte> note =
      wire::encode(wire::held::Counters{.core = core, .service = counts(lost)});
  if (note == held_) return;
  store_.hold(kKey, note, {});
  held_ = std::move(note);
}

}  // namespace laneway::service
