// JournalFile: memory for a journal, the test's own.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "base/check.h"
#include "base/result.h"
#include "service/journal/journal.h"
#include "service/journal/journal_view.h"

namespace laneway::testing {

class JournalFile {
 public:
  explicit JournalFile(uint64_t bytes = service::kJournalBytes)
      : descriptor_(::memfd_create("laneway-journal-test", MFD_CLOEXEC)) {
    LW_CHECK(::ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0, "memory for a test");
  }
  ~JournalFile() { ::close(descriptor_); }
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;
  Result<std::unique_ptr<service::Journal>> map() const {
    return service::Journal::map(descriptor_);
  }
  Result<std::unique_ptr<service::JournalView>> view() const {
    return service::JournalView::map(descriptor_);
  }
  void scribble() const { LW_CHECK(::pwrite(descriptor_, "other", 5, 0) == 5, "it is a file"); }

 private:
  const int descriptor_;
};

}  // namespace laneway::testing
