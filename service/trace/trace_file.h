// The file of a trace: a header (magic "LNWYTRCE", version, pid of lanewayd, the moment at which it
// began on the steady and on the wall clock, check sum), then records, each a u32 length, a u32
// check sum, and as many bytes as the length says (service/wire/codec_trace.h), all little-endian.
// A check sum is FNV-1a of what stands in front of it, or of the record's bytes: no single byte can
// change and leave it as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/job_options.h"
#include "base/result.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

// Raised when the header or any record changes. A file of another version is refused.
inline constexpr uint32_t kTraceVersion = 16 + kJobOptionsVersion;

struct TraceHeader {
  char magic[8] = {'L', 'N', 'W', 'Y', 'T', 'R', 'C', 'E'};
  uint32_t version = kTraceVersion;
  int32_t pid = 0;
  int64_t steady_ns = 0;
  int64_t unix_ns = 0;
  uint64_t check = 0;
};
static_assert(sizeof(TraceHeader) == 40);

// In front of each record.
struct TraceRecordHeader {
  uint32_t length = 0;
  uint32_t check = 0;
};

// FNV-1a, 32 bits.
uint32_t check_sum(std::span<const std::byte> bytes);

// The program is one that can read it; invalid_argument or unsupported says why not.
Status check_trace_header(const TraceHeader& header);

// What lanewayd does before anything else starts: a file with a header and no records, in the place
// of an older trace. The descriptor keeps others from beginning the same file while it is open.
// invalid_argument, with the remedy, when the file cannot be written, is no regular file, is
// something else than a trace, or is being written by another service.
Result<Descriptor> begin_trace_file(const std::string& path, const Clock& clock);

}  // namespace laneway::service
