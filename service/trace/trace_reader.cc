#include "service/trace/trace_reader.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "service/trace/limits.h"
#include "service/wire/codec_trace.h"

namespace laneway::service {

Result<TraceReader> TraceReader::open(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return Error{ErrorCode::invalid_argument, "'" + path + "': " + error.message()};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{ErrorCode::invalid_argument, "'" + path + "': " + std::strerror(errno)};
  }
  TraceReader reader(path, std::move(file), size);
  if (!reader.file_.read(reinterpret_cast<char*>(&reader.header_), sizeof(TraceHeader))) {
    return reader.at_offset("a trace begins with " + std::to_string(sizeof(TraceHeader)) +
                            " bytes of header, and this file has " + std::to_string(size));
  }
  if (const Status known = check_trace_header(reader.header_); !known) {
    return Error{known.error().code, "'" + path + "' cannot be read: " + known.error().message};
  }
  reader.offset_ = reader.after_ = sizeof(TraceHeader);
  return reader;
}

Error TraceReader::at_offset(const std::string& what) const {
  return Error{ErrorCode::invalid_argument,
               "'" + path_ + "' at offset " + std::to_string(offset_) + ": " + what};
}

Result<std::optional<std::span<const std::byte>>> TraceReader::next_bytes() {
  using Bytes = std::optional<std::span<const std::byte>>;
  offset_ = after_;
  if (offset_ >= size_) return Bytes();
  TraceRecordHeader record;
  uint64_t left = size_ - offset_;
  if (left < sizeof(record) || !file_.read(reinterpret_cast<char*>(&record), sizeof(record))) {
    return at_offset("the file ends within the head of a record");
  }
  left -= sizeof(record);
  const uint32_t length = record.length;
  if (length > limits::kMaxTraceRecordBytes) {
    return at_offset("a record of " + std::to_string(length) + " bytes; the limit is " +
                     std::to_string(limits::kMaxTraceRecordBytes));
  }
  if (length > left) {
    return at_offset("a record of " + std::to_string(length) + " bytes, of which " +
                     std::to_string(left) + " are there");
  }
  bytes_.resize(length);
  if (length > 0 && !file_.read(reinterpret_cast<char*>(bytes_.data()), length)) {
    return at_offset("the file cannot be read further");
  }
  if (check_sum(bytes_) != record.check) {
    return at_offset("this record is not as it was written: its check sum differs");
  }
  after_ = offset_ + sizeof(record) + length;
  return Bytes(bytes_);
}

Result<std::optional<wire::trace::Record>> TraceReader::next() {
  const auto bytes = next_bytes();
  if (!bytes) return bytes.error();
  if (!bytes.value()) return std::optional<wire::trace::Record>();
  auto record = wire::decode_record(*bytes.value());
  if (!record) return at_offset("no record of a trace: " + record.error().message);
  return std::optional<wire::trace::Record>(std::move(record).value());
}

}  // namespace laneway::service
