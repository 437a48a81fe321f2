#include "service/trace/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>

namespace laneway::service {
namespace {

Error no_file(const std::string& path, const std::string& why) {
  return Error{ErrorCode::invalid_argument,
               "'" + path + "': " + why + "; give a file that can be written"};
}

uint64_t check_of(const TraceHeader& header) {
  return check_sum(std::as_bytes(std::span(&header, 1)).first(offsetof(TraceHeader, check)));
}

}  // namespace

uint32_t check_sum(std::span<const std::byte> bytes) {
  uint32_t sum = 2166136261u;
  for (const std::byte byte : bytes) sum = (sum ^ static_cast<uint8_t>(byte)) * 16777619u;
  return sum;
}

Status check_trace_header(const TraceHeader& header) {
  if (std::memcmp(header.magic, TraceHeader().magic, sizeof(header.magic)) != 0) {
    return Error{ErrorCode::invalid_argument, "it does not begin as a trace of lanewayd does"};
  }
  if (header.version != kTraceVersion) {
    return Error{ErrorCode::unsupported,
                 "it has version " + std::to_string(header.version) +
                     ", and this program reads version " + std::to_string(kTraceVersion) +
                     ": use the laneway-trace of the lanewayd that wrote it"};
  }
  if (header.check != check_of(header)) {
    return Error{ErrorCode::invalid_argument,
                 "its header is not as it was written: a byte of it has changed"};
  }
  return {};
}

Result<Descriptor> begin_trace_file(const std::string& path, const Clock& clock) {
  // open() does not empty the file, since it may be none of ours, and does not wait for the other
  // end, should it be a pipe.
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640));
  if (!file.valid()) return no_file(path, std::strerror(errno));
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return no_file(path, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return no_file(path, "is no regular file");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return no_file(path, "is being written by another lanewayd");
  }
  TraceHeader header;
  if (facts.st_size > 0) {
    // One of another version may go too.
    const ssize_t got = ::pread(file.get(), &header, sizeof(header), 0);
    if (got < static_cast<ssize_t>(sizeof(header.magic)) ||
        std::memcmp(header.magic, TraceHeader().magic, sizeof(header.magic)) != 0) {
      return no_file(path, "is there already and is no trace, so it is left alone");
    }
  }
  header = TraceHeader();
  header.pid = ::getpid();
  header.steady_ns = clock.now().ns();
  header.unix_ns =
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  header.check = check_of(header);
  if (::ftruncate(file.get(), 0) != 0) return no_file(path, std::strerror(errno));
  const ssize_t put = ::pwrite(file.get(), &header, sizeof(header), 0);
  if (put != static_cast<ssize_t>(sizeof(header))) {
    return no_file(path, put < 0 ? std::strerror(errno) : "the disk is full");
  }
  return file;
}

}  // namespace laneway::service
