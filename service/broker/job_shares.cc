#include "service/broker/job_shares.h"

#include <string>
#include <utility>

#include "base/printable.h"
#include "service/broker/limits.h"
#include "service/wire/codec.h"

namespace laneway::service {

Status take_shares(Quotas& quotas, JobEntry& entry) {
  struct Wanted {
    Resource resource;
    uint64_t amount;
    Quotas::Share& share;
  };
  for (const Wanted& one :
       {Wanted{Resource::jobs, 1, entry.place},
        Wanted{Resource::held_bytes, wire::encode(entry.record).size(), entry.note},
        Wanted{Resource::descriptors, 1, entry.graphs.at(0).share},
        Wanted{Resource::descriptors, entry.record.spec.descriptors() - 1, entry.first_bytes}}) {
    auto taken = quotas.take(one.resource, entry.record.user, one.amount);
    if (!taken) return taken.error();
    one.share = std::move(taken).value();
  }
  return {};
}

void keep_shares(Quotas& quotas, JobTable& table) {
  for (auto& [id, job] : table.all()) {
    const uint32_t user = job.record.user;
    const auto files = [&](uint64_t count) {
      return quotas.keep(Resource::descriptors, user, count);
    };
    job.place = quotas.keep(Resource::jobs, user, 1);
    job.note = quotas.keep(Resource::held_bytes, user, wire::encode(job.record).size());
    job.first_bytes = files(job.record.spec.descriptors() - 1);
    for (auto& [number, graph] : job.graphs) graph.share = files(1);
    for (auto& [number, link] : job.links) {
      link.share = files(limits::kDescriptorsOfLink);
      for (auto& [segment, entry] : link.segments) entry.share = files(1);
    }
  }
}

Status check_session(const JobTable& table, SessionId session) {
  if (table.count_of(session) < limits::kMaxJobsPerSession) return {};
  return Error{ErrorCode::refused, "this client has " + std::to_string(limits::kMaxJobsPerSession) +
                                       " jobs, which is the limit of one: close some first"};
}

Status check_slot_names(const std::vector<ImageSlot>& slots) {
  for (const ImageSlot& slot : slots) {
    if (slot.name.size() <= limits::kMaxSlotNameBytes) continue;
    return Error{ErrorCode::refused, "the name of slot '" + printable(slot.name) + "' has " +
                                         std::to_string(slot.name.size()) +
                                         " bytes; the limit is " +
                                         std::to_string(limits::kMaxSlotNameBytes) +
                                         ": give the modules on its path shorter names"};
  }
  return {};
}

}  // namespace laneway::service
