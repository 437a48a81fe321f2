// WeightFiles: first bytes of a job's slots that lie in files: the files that a client opened, and
// which of their bytes belong where. A client says it, messages carry it beside the descriptors,
// the worker reads the files. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/image_slot.h"
#include "base/result.h"

namespace laneway {

// A regular file as it was when the client described it.
struct WeightFile {
  std::string name;  // for messages; nobody opens it by this name
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // since the epoch
  friend bool operator==(const WeightFile&, const WeightFile&) = default;
};

// `bytes` bytes of a slot, from `slot_offset` on, lie in the file from `file_offset` on.
struct FileRange {
  uint32_t slot = 0;
  uint32_t file = 0;
  uint64_t slot_offset = 0;
  uint64_t file_offset = 0;
  uint64_t bytes = 0;
  bool has_crc32 = false;
  uint32_t crc32 = 0;  // of those bytes, zlib's
  friend bool operator==(const FileRange&, const FileRange&) = default;
};

struct WeightFiles {
  std::vector<WeightFile> files;
  // By slot, then by offset in the slot, disjoint. The rest of a slot that has ranges is zeros.
  std::vector<FileRange> ranges;
  friend bool operator==(const WeightFiles&, const WeightFiles&) = default;
};

// Whether the ranges lie in their files and slots, in their order. invalid_argument names the first
// that does not; too many files (limits::kMaxWeightFiles), too.
Status check_weight_files(std::span<const ImageSlot> slots, const WeightFiles& weights);

}  // namespace laneway
