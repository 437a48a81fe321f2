// Records of a trace as bytes and back: the fields alone, little-endian, without the header that
// messages have, because a file has many. Decoding believes nothing. Stateless; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "service/wire/trace_record.h"

namespace laneway::wire {

// Appends to `bytes`.
void encode_record(const trace::Record& record, std::vector<std::byte>& bytes);

// invalid_argument says what is wrong, and at which of these bytes.
Result<trace::Record> decode_record(std::span<const std::byte> bytes);

}  // namespace laneway::wire
