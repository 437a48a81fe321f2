#include "service/journal/journal_view.h"

#include <sys/mman.h>
#include <sys/stat.h>

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

std::optional<JournalView::Progress> JournalView::progress(uint32_t index, JobId job) const {
  if (!job.valid() || index >= memory_->jobs.size()) return std::nullopt;
  const JobRecord& record = memory_->jobs[index];
  if (record.job.load(std::memory_order_acquire) != job.value()) return std::nullopt;
  Progress progress;
  // The half that the word speaks of is only written again after the next word. A few tries meet a
  // quiet moment; without one the two numbers are of neighbouring iterations, which does no harm.
  for (int tries = 0; tries < 8; ++tries) {
    const uint64_t number = record.word.load(std::memory_order_acquire) >> 3;
    const JournalTotals& totals = record.totals[number % 2];
    progress.iterations = totals.iterations.load(std::memory_order_acquire);
    progress.busy = Duration(totals.busy_ns.load(std::memory_order_acquire));
    if (record.word.load(std::memory_order_acquire) >> 3 == number) break;
  }
  // Given to another job meanwhile.
  if (record.job.load(std::memory_order_acquire) != job.value()) return std::nullopt;
  return progress;
}

}  // namespace laneway::service
