#include "service/trace/trace_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/log.h"
#include "service/trace/trace_reader.h"
#include "service/wire/codec_trace.h"

namespace laneway::service {

Result<std::unique_ptr<TraceWriter>> TraceWriter::append(const std::string& path, size_t room) {
  auto reader = TraceReader::open(path);
  if (!reader) return reader.error();
  auto bytes = reader.value().next_bytes();
  while (bytes && bytes.value()) bytes = reader.value().next_bytes();
  const uint64_t whole = reader.value().offset();
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(whole)) != 0 ||
      ::lseek(file.get(), 0, SEEK_END) < 0) {
    return Error{ErrorCode::invalid_argument, "'" + path + "': " + std::strerror(errno)};
  }
  if (!bytes) log_warning("cut off: " + bytes.error().message);
  return std::unique_ptr<TraceWriter>(new TraceWriter(path, std::move(file), whole, room));
}

bool TraceWriter::put(const wire::trace::Record& record, size_t most) {
  const size_t before = waiting_.size();
  const size_t begin = before + sizeof(TraceRecordHeader);
  waiting_.resize(begin);
  wire::encode_record(record, waiting_);
  const size_t length = waiting_.size() - begin;
  if (waiting_.size() > most || length > limits::kMaxTraceRecordBytes) {
    waiting_.resize(before);
    return false;
  }
  const TraceRecordHeader header{.length = static_cast<uint32_t>(length),
                                 .check = check_sum(std::span(waiting_).subspan(begin))};
  std::memcpy(waiting_.data() + before, &header, sizeof(header));
  return true;
}

void TraceWriter::note(TimePoint now, const wire::trace::Record& record) {
  if (stopped_) return;
  // Behind a record that is lost all are, until the count of them is written: it says where they
  // would stand.
  if (lost_ > 0 || !put(record, room_)) {
    ++lost_;
    ++lost_in_all_;
    lost_ns_ = now.ns();
  }
  flush_at_ = std::min(flush_at_, now + limits::kLongestTraceDelay);
}

void TraceWriter::flush_if_due(TimePoint now) {
  if (now >= flush_at_ || waiting_.size() > room_ / 2) flush();
}

void TraceWriter::flush() {
  flush_at_ = TimePoint::never();
  if (stopped_) return;
  if (lost_ > 0) {
    const wire::trace::Lost lost{.records = std::exchange(lost_, 0), .iterations = 0};
    put({.time_ns = lost_ns_, .entry = lost}, SIZE_MAX);
  }
  size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t put = ::write(file_.get(), waiting_.data() + written, waiting_.size() - written);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return stop(put < 0 ? errno : ENOSPC);
    written += static_cast<size_t>(put);
  }
  size_ += written;
  waiting_.clear();
}

void TraceWriter::stop(int why) {
  stopped_ = true;
  log_warning("the trace '" + path_ + "' is written no further: " + std::strerror(why) +
              "; the service goes on without it");
  if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
    log_warning("its last record is cut off: " + std::string(std::strerror(errno)));
  }
  file_.reset();
  waiting_ = {};
}

}  // namespace laneway::service
