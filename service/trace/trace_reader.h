// TraceReader: the records of a trace, one after the other. Believes nothing of the file. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/trace/trace_file.h"
#include "service/wire/trace_record.h"

namespace laneway::service {

class TraceReader {
 public:
  // The error names the file and what is wrong with its beginning.
  static Result<TraceReader> open(const std::string& path);

  const TraceHeader& header() const { return header_; }
  // Of the record that next gives, or fails at.
  uint64_t offset() const { return offset_; }

  // Nothing at the end of the file. invalid_argument, with the offset, when the record is cut off
  // or makes no sense; there is no way on from there.
  Result<std::optional<wire::trace::Record>> next();
  // The same for who does not care what is in it.
  Result<std::optional<std::span<const std::byte>>> next_bytes();

 private:
  TraceReader(std::string path, std::ifstream file, uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}
  Error at_offset(const std::string& what) const;

  std::string path_;
  std::ifstream file_;
  uint64_t size_;  // when it was opened: a file that grows is read so far
  uint64_t offset_ = 0;
  uint64_t after_ = 0;  // where the next record begins
  TraceHeader header_;
  std::vector<std::byte> bytes_;
};

}  // namespace laneway::service
