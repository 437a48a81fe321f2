// BrokerCounters: what the broker counts beside its cores: deaths by role, records that were lost.
// It has the supervisor hold its own counts and the cores' (key "c") at each heartbeat at which one
// of them is new, so that the next broker goes on from there: what came in the last few seconds of
// a broker that dies is not counted. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lanes/state/counters.h"
#include "service/broker/descriptor_store.h"
#include "service/wire/service_facts.h"
#include "service/wire/supervisor_messages.h"

namespace laneway::service {

class BrokerCounters {
 public:
  static constexpr const char* kKey = "c";

  // `store` must outlive this object.
  explicit BrokerCounters(DescriptorStore& store) : store_(store) {}

  // Of the broker before this one: what its cores had counted. The counts begin at 0 where the note
  // makes no sense, which is an error.
  Result<lanes::Counters> restore(std::span<const std::byte> note);
  // Of the service: 1 for its first broker, one more for each that followed a death.
  void set_epoch(uint64_t epoch) { counts_.broker_deaths = epoch > 0 ? epoch - 1 : 0; }
  void worker_died(wire::WorkerRole role);
  void policy_died() { ++counts_.policy_deaths; }
  void lost(uint64_t records) { counts_.lost_records += records; }
  // `lost`: by a trace that is still written.
  wire::ServiceCounters counts(uint64_t lost) const;
  void hold(const lanes::Counters& core, uint64_t lost);

 private:
  DescriptorStore& store_;
  wire::ServiceCounters counts_;
  std::vector<std::byte> held_;
};

}  // namespace laneway::service
