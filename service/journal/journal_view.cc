#include "service/journal/journal_view.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace laneway::service {

Result<std::unique_ptr<JournalView>> JournalView::map(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || status.st_size != static_cast<off_t>(kJournalBytes)) {
    return Error{ErrorCode::invalid_argument, "descriptor " + std::to_string(descriptor) + " has " +
                                                  std::to_string(status.st_size) +
                                                  " bytes, a journal has " +
                                                  std::to_string(kJournalBytes)};
  }
  void* mapped = ::mmap(nullptr, kJournalBytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    return Error{ErrorCode::failed, std::string("mapping the journal: ") + std::strerror(errno)};
  }
  return std::unique_ptr<JournalView>(new JournalView(static_cast<const JournalMemory*>(mapped)));
}

JournalView::~JournalView() {
  ::munmap(const_cast<JournalMemory*>(memory_), kJournalBytes);  // NOLINT: ours, mapped in map()
}

Bytes JournalView::recovery_used() const {
  return Bytes(static_cast<int64_t>(memory_->header.recovery_used.load(std::memory_order_relaxed)));
}

const JobRecord* JournalView::record_of(uint32_t index, JobId job) const {
  if (!job.valid() || index >= memory_->jobs.size()) return nullptr;
  const JobRecord& record = memory_->jobs[index];
  return record.job.load(std::memory_order_acquire) == job.value() ? &record : nullptr;
}

std::optional<std::string> JournalView::suspicion(uint32_t index, JobId job) const {
  const JobRecord* const record = record_of(index, job);
  if (record == nullptr || record->suspicions.load(std::memory_order_acquire) == 0) return {};
  const size_t bytes = record->suspicion_bytes.load(std::memory_order_relaxed);
  return std::string(record->suspicion_text.data(), std::min(bytes, record->suspicion_text.size()));
}

const JobShown* JournalView::shown(uint32_t index, JobId job) const {
  const JobRecord* const record = record_of(index, job);
  return record == nullptr ? nullptr : &record->shown;
}

std::optional<JournalView::Progress> JournalView::progress(uint32_t index, JobId job) const {
  const JobRecord* const found = record_of(index, job);
  if (found == nullptr) return std::nullopt;
  const JobRecord& record = *found;
  Progress progress;
  // The half that the word speaks of is only written again after the next word. A few tries meet a
  // quiet moment; without one the two numbers are of neighbouring iterations, which does no harm.
  for (int tries = 0; tries < 8; ++tries) {
    const uint64_t number = number_of(record.word.load(std::memory_order_acquire));
    const JournalTotals& totals = record.totals[number % 2];
    progress.iterations = totals.iterations.load(std::memory_order_acquire);
    progress.busy = Duration(totals.busy_ns.load(std::memory_order_acquire));
    if (number_of(record.word.load(std::memory_order_acquire)) == number) break;
  }
  // Given to another job meanwhile.
  if (record.job.load(std::memory_order_acquire) != job.value()) return std::nullopt;
  return progress;
}

}  // namespace laneway::service
