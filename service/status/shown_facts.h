// What a worker shows of its job (JobShown), as a status has it: for a broker, which reads the
// worker's journal, and for embedded mode.
#pragma once

#include "service/journal/job_shown.h"
#include "service/wire/service_facts.h"

namespace laneway::service {

inline void add_shown(const JobShown& shown, wire::JobFacts& facts) {
  facts.moved = Bytes(shown.moved_bytes.load(std::memory_order_relaxed));
}

}  // namespace laneway::service
