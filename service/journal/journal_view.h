// JournalView: the journal as somebody else than its writer sees it: mapped for reading, asked
// while the worker goes on writing. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "service/journal/journal_layout.h"

namespace laneway::service {

class JournalView {
 public:
  // Maps kJournalBytes of `descriptor`, which stays the caller's and may be fresh (zeros).
  // invalid_argument when it has another size.
  static Result<std::unique_ptr<JournalView>> map(int descriptor);
  ~JournalView();
  JournalView(const JournalView&) = delete;
  JournalView& operator=(const JournalView&) = delete;

  // What a job has run so far, the turn that is open included.
  struct Progress {
    uint64_t iterations = 0;
    Duration busy;
  };
  // None when record `index` is not (or no longer) that job's.
  std::optional<Progress> progress(uint32_t index, JobId job) const;
  // What was noted when a worker or its device failed because of the job; none, too, when the
  // record is not (or no longer) that job's.
  std::optional<std::string> suspicion(uint32_t index, JobId job) const;
  // What the worker shows of the job; null when the record is not (or no longer) that job's.
  const JobShown* shown(uint32_t index, JobId job) const;
  // Of the recovery memory, as the worker shows it.
  Bytes recovery_used() const;

 private:
  // The record, if it is that job's.
  const JobRecord* record_of(uint32_t index, JobId job) const;
  explicit JournalView(const JournalMemory* memory) : memory_(memory) {}

  const JournalMemory* const memory_;
};

}  // namespace laneway::service
