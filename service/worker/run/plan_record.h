// PlanRecord: a graph's plan as bytes, in the form in which a worker keeps it for its successor.
// Whoever reads the bytes believes nothing of them: a record that is cut short, is another graph's,
// or is no plan of its own tape is none. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "memory/planned_tape.h"
#include "memory/tape.h"

namespace laneway::service {

// Which graph, on which device, a plan is for.
struct PlanSubject {
  uint64_t graph_key = 0;  // of what capture predicts of the graph's memory
  size_t nodes = 0;        // of the graph
  int64_t alignment = 0;   // of the lanes' regions
};

struct PlanRecord {
  std::shared_ptr<const memory::PlannedTape> planned;
  std::vector<memory::TapePosition> marks;  // may be empty: not known
  double plan_s = 0;                        // what planning took
};

// Requires: `record.planned` is there.
std::vector<std::byte> encode_plan(const PlanSubject& subject, const PlanRecord& record);
// Nothing when the bytes, which may be followed by any others, are no plan for the subject.
std::optional<PlanRecord> decode_plan(const PlanSubject& subject, std::span<const std::byte> bytes);

}  // namespace laneway::service
