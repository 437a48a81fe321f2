// KnownGraph: what jobs with one graph (the same bytes, over images with the same slots) share: its
// program, and by user what an iteration of one of the user's jobs taught about its memory. Nothing
// of any job's data is in it: a program is a function of the graph's bytes alone. A measured plan
// may depend on data (an operator may allocate by it), so it goes to jobs of the same user only.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adaptor/device/device_program.h"
#include "base/bytes.h"
#include "base/image_slot.h"
#include "base/mutex.h"
#include "base/time.h"
#include "memory/tape.h"
#include "service/worker/run/plan_cache.h"

namespace laneway::service {

class KnownGraph {
 public:
  // What was learnt of such a graph.
  struct Learnt {
    PlanCache::Entry plan;
    std::vector<memory::TapePosition> marks;  // as GraphPlan::marks
    Duration longest_node;                    // 0: not known
    Duration iteration = Duration();          // what one took lately; 0: not known
  };

  // `program` was made from exactly these bytes and slots.
  KnownGraph(std::span<const std::byte> bytes, std::span<const ImageSlot> slots,
             adaptor::ProgramHandle program)
      : bytes_(bytes.begin(), bytes.end()),
        slots_(slots.begin(), slots.end()),
        program_(std::move(program)) {}

  // Whether it was made from exactly these.
  bool is(std::span<const std::byte> bytes, std::span<const ImageSlot> slots) const;
  // Of its binary form.
  Bytes size() const { return Bytes(static_cast<int64_t>(bytes_.size())); }
  const adaptor::ProgramHandle& program() const { return program_; }

  // What jobs of that user (uid) begin with; nothing while none of theirs was measured.
  std::optional<Learnt> learnt(uint32_t user) const LW_EXCLUDES(mutex_);
  void learn(uint32_t user, Learnt learnt) LW_EXCLUDES(mutex_);
  // An iteration did not fit that plan: no further job begins with it.
  void forget(uint32_t user, const memory::PlannedTape* planned) LW_EXCLUDES(mutex_);
  // What an iteration took whose memory was planned.
  void note_iteration(uint32_t user, Duration took) LW_EXCLUDES(mutex_);
  // A node of a planned graph took longer than all before.
  void note_longest(uint32_t user, Duration node) LW_EXCLUDES(mutex_);

 private:
  const std::vector<std::byte> bytes_;
  const std::vector<ImageSlot> slots_;
  const adaptor::ProgramHandle program_;
  mutable Mutex mutex_;
  std::map<uint32_t, Learnt> learnt_ LW_GUARDED_BY(mutex_);  // by user
};

// While a job has it, its graph is known to the cache.
using KnownGraphHandle = std::shared_ptr<KnownGraph>;

// Where a job's graph comes from.
struct GraphOrigin {
  KnownGraphHandle known;  // null: nothing of it is shared
  bool was_known = false;  // it was not decoded, checked and resolved for this job
  uint32_t user = 0;       // uid
};

}  // namespace laneway::service
