// JournalView: the journal as somebody else than its writer sees it: mapped for reading, asked
// while the worker goes on writing. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

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

 private:
  explicit JournalView(const JournalMemory* memory) : memory_(memory) {}

  const JournalMemory* const memory_;
};

}  // namespace laneway::service
