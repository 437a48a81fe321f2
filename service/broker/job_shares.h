// The shares that a job takes of its user's quotas: asked for before the job is made, and kept by a
// broker whose predecessor made it. Free functions over JobEntry.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/image_slot.h"
#include "base/result.h"
#include "service/broker/job_entry.h"
#include "service/broker/job_table.h"
#include "service/broker/quotas.h"

namespace laneway::service {

// Of the entry itself, its first graph and its first bytes; links and further graphs take their own
// (JobParts). refused as Quotas::take; shares that were taken go with the entry. Requires: its
// record is what will be held.
Status take_shares(Quotas& quotas, JobEntry& entry);
// Of all jobs with all their parts.
void keep_shares(Quotas& quotas, JobTable& table);

// refused when the session has limits::kMaxJobsPerSession jobs.
Status check_session(const JobTable& table, SessionId session);
// refused when a name is longer than limits::kMaxSlotNameBytes: notes, and messages to each new
// worker, have all of them.
Status check_slot_names(const std::vector<ImageSlot>& slots);

}  // namespace laneway::service
