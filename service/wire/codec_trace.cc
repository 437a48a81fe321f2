#include "service/wire/codec_trace.h"

#include <exception>
#include <string>

#include "service/wire/bounded_archive.h"

namespace laneway::wire {

void encode_record(const trace::Record& record, std::vector<std::byte>& bytes) {
  BoundedOutput archive(bytes);
  archive(record);
}

Result<trace::Record> decode_record(std::span<const std::byte> bytes) {
  BoundedInput archive(bytes);
  // Read where it is returned: gcc 12 takes the move of a variant of these for one of something
  // uninitialized.
  Result<trace::Record> record{trace::Record()};
  try {
    archive(record.value());
  } catch (const std::exception& thrown) {  // no memory left, in the worst case
    archive.fail(thrown.what());
  }
  if (!archive.failed() && archive.left() > 0) {
    archive.fail(std::to_string(archive.left()) + " bytes are left over");
  }
  if (archive.failed()) return Error{ErrorCode::invalid_argument, archive.failure()};
  return record;
}

}  // namespace laneway::wire
