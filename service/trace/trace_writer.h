// TraceWriter: appends records to a trace that was begun. They wait in memory and are written when
// the owner says so. What has no room is counted, and a record says how many are missing. A disk
// that is full ends the trace with a warning and with whole records, and nothing else. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "service/trace/limits.h"
#include "service/transport/descriptor.h"
#include "service/wire/trace_record.h"

namespace laneway::service {

class TraceWriter {
 public:
  // Goes on behind the last whole record: what a writer that was killed left half written is cut
  // off. invalid_argument when there is no such file, or it is no trace of this version.
  // `room`: bytes that may wait in memory.
  static Result<std::unique_ptr<TraceWriter>> append(const std::string& path,
                                                     size_t room = limits::kMaxTraceBufferBytes);
  ~TraceWriter() { flush(); }
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Cheap; writes nothing to the file.
  void note(TimePoint now, const wire::trace::Record& record);
  // When what waits should be written; never while nothing does.
  TimePoint next_flush() const { return flush_at_; }
  // Writes if that time has come, or half of the room is used.
  void flush_if_due(TimePoint now);
  void flush();
  // It is written no further.
  bool stopped() const { return stopped_; }
  // Records for which there was no room, since it was opened.
  uint64_t lost() const { return lost_in_all_; }

 private:
  TraceWriter(std::string path, Descriptor file, uint64_t size, size_t room)
      : path_(std::move(path)), file_(std::move(file)), size_(size), room_(room) {}
  // False, and nothing changed, when it would have more bytes than that.
  bool put(const wire::trace::Record& record, size_t most);
  void stop(int why);

  const std::string path_;
  Descriptor file_;
  uint64_t size_;  // of the file, whole records all
  const size_t room_;
  std::vector<std::byte> waiting_;
  TimePoint flush_at_ = TimePoint::never();
  uint64_t lost_ = 0;  // since the last count of them was written
  uint64_t lost_in_all_ = 0;
  int64_t lost_ns_ = 0;  // when the last one was
  bool stopped_ = false;
};

}  // namespace laneway::service
