// WeightFileReader: reads first bytes of a job's slots out of files that its client opened. They
// are read, never mapped: a file that is cut short would end the process. A file that was written
// to since the client described it is refused, and so are bytes with another checksum. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/weight_files.h"
#include "memory/os/owned_descriptor.h"

namespace laneway::pipeline {

class WeightFileReader {
 public:
  // Gets a range's bytes in their order, `at` bytes behind its beginning.
  using Take = std::function<Status(uint64_t at, const std::byte* data, uint64_t bytes)>;

  WeightFileReader() = default;
  // By file, as many as `weights` has. Nothing is believed of what a client says: invalid_argument
  // when ranges lie elsewhere, or a descriptor is none of a regular file that can be read.
  static Result<WeightFileReader> make(std::span<const ImageSlot> slots, WeightFiles weights,
                                       std::vector<memory::OwnedDescriptor> descriptors);

  bool empty() const { return weights_.ranges.empty(); }
  std::span<const FileRange> ranges() const { return weights_.ranges; }
  // Of that slot, in the order of their offsets; none: its bytes lie in no file.
  std::span<const FileRange> ranges_of(uint32_t slot) const;

  // Reads one of the ranges. failed, with file, slot and what is wrong, when the file does not give
  // the bytes or they have another checksum; and what `take` returned.
  Status read(const FileRange& range, const Take& take);
  // Whether the files are those that the client described: asked after the last read, as what was
  // read before a file changed may have been right. failed names the file.
  Status check_unchanged() const;

 private:
  Error bad(const FileRange& range, const std::string& why) const;

  WeightFiles weights_;
  std::vector<std::string> slot_names_;  // of those in files, by range
  std::vector<memory::OwnedDescriptor> descriptors_;
  std::vector<std::byte> piece_;
};

}  // namespace laneway::pipeline
