// ByteReader: reads little-endian fields from untrusted bytes. The first fault is kept as the
// error, with the field and the byte offset; from then on every read gives zero, so a decoder may
// go on reading and tests failed() in its loops. No memory is allocated by an unchecked count:
// counts are checked against a limit and against the bytes that are left. Borrows the bytes. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace laneway::lanes {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  // The error of the first failure. Requires: failed().
  const Error& error() const { return error_; }
  size_t offset() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  // `field` is the field's name in messages; it must outlive the reader (a literal).
  uint8_t u8(const char* field);
  uint32_t u32(const char* field);
  uint64_t u64(const char* field);
  int32_t i32(const char* field) { return static_cast<int32_t>(u32(field)); }
  int64_t i64(const char* field) { return static_cast<int64_t>(u64(field)); }
  double f64(const char* field);
  bool boolean(const char* field);
  // A u8 below `count`.
  uint8_t enumerator(const char* field, uint8_t count);
  // A u32 of at most `limit` elements, each of which takes at least `bytes_each` of the bytes that
  // are left.
  uint32_t count(const char* field, uint64_t limit, uint64_t bytes_each);
  // A u32 length of at most `limit`, and that many bytes of UTF-8.
  std::string text(const char* field, uint64_t limit);

  // Records "FIELD at byte OFFSET: WHAT" as the failure, unless there is one already.
  void fail(const char* field, size_t offset, const std::string& what);

 private:
  // The next `size` bytes as a little-endian integer.
  uint64_t integer(const char* field, size_t size);

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool failed_ = false;
  Error error_;
};

}  // namespace laneway::lanes
