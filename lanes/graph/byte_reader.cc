#include "lanes/graph/byte_reader.h"

#include <bit>

#include "base/utf8.h"

namespace laneway::lanes {

void ByteReader::fail(const char* field, size_t offset, const std::string& what) {
  if (failed_) return;
  failed_ = true;
  error_ = Error{ErrorCode::invalid_graph,
                 std::string("graph bytes are malformed: ") + field + " at byte " +
                     std::to_string(offset) + " of " + std::to_string(bytes_.size()) + ": " + what +
                     "; send the graph as this version of laneway encodes it"};
}

uint64_t ByteReader::integer(const char* field, size_t size) {
  if (failed_) return 0;
  if (left() < size) {
    fail(field, at_,
         "needs " + std::to_string(size) + " bytes, " + std::to_string(left()) + " are left");
    return 0;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= static_cast<uint64_t>(bytes_[at_ + i]) << (8 * i);
  }
  at_ += size;
  return value;
}

uint8_t ByteReader::u8(const char* field) { return static_cast<uint8_t>(integer(field, 1)); }
uint32_t ByteReader::u32(const char* field) { return static_cast<uint32_t>(integer(field, 4)); }
uint64_t ByteReader::u64(const char* field) { return integer(field, 8); }
double ByteReader::f64(const char* field) { return std::bit_cast<double>(u64(field)); }
bool ByteReader::boolean(const char* field) { return enumerator(field, 2) != 0; }

uint8_t ByteReader::enumerator(const char* field, uint8_t count) {
  const size_t start = at_;
  const uint8_t value = u8(field);
  if (value < count) return value;
  fail(field, start,
       "value " + std::to_string(value) + " is unknown, the highest is " +
           std::to_string(count - 1));
  return 0;
}

uint32_t ByteReader::count(const char* field, uint64_t limit, uint64_t bytes_each) {
  const size_t start = at_;
  const uint32_t value = u32(field);
  if (value > limit) {
    fail(field, start,
         "count " + std::to_string(value) + " is over the limit of " + std::to_string(limit));
    return 0;
  }
  if (uint64_t{value} * bytes_each > left()) {
    fail(field, start,
         "count " + std::to_string(value) + " needs at least " +
             std::to_string(uint64_t{value} * bytes_each) + " bytes, " + std::to_string(left()) +
             " are left");
    return 0;
  }
  return value;
}

std::string ByteReader::text(const char* field, uint64_t limit) {
  const size_t start = at_;
  const uint32_t length = count(field, limit, 1);
  const auto bytes = bytes_.subspan(at_, length);
  if (!is_utf8(bytes)) {
    fail(field, start, "text is not UTF-8");
    return {};
  }
  at_ += length;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace laneway::lanes
