#include "pipeline/weight_file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fault_point.h"

namespace laneway::pipeline {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;

bool is_readable_file(int descriptor) {
  struct stat status {};
  const int mode = ::fcntl(descriptor, F_GETFL);
  return mode >= 0 && (mode & O_PATH) == 0 && (mode & O_ACCMODE) != O_WRONLY &&
         ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

Result<WeightFileReader> WeightFileReader::make(std::span<const ImageSlot> slots,
                                                WeightFiles weights,
                                                std::vector<memory::OwnedDescriptor> descriptors) {
  if (Status right = check_weight_files(slots, weights); !right) return right.error();
  if (descriptors.size() != weights.files.size()) {
    return Error{ErrorCode::invalid_argument,
                 std::to_string(weights.files.size()) + " files with " +
                     std::to_string(descriptors.size()) + " descriptors"};
  }
  for (size_t i = 0; i < descriptors.size(); ++i) {
    if (is_readable_file(descriptors[i].get())) continue;
    return Error{ErrorCode::invalid_argument,
                 "'" + weights.files[i].name + "' is no regular file that is open for reading"};
  }
  WeightFileReader reader;
  reader.slot_names_.reserve(weights.ranges.size());
  for (const FileRange& range : weights.ranges) {
    reader.slot_names_.push_back(slots[range.slot].name);
  }
  reader.weights_ = std::move(weights);
  reader.descriptors_ = std::move(descriptors);
  return reader;
}

std::span<const FileRange> WeightFileReader::ranges_of(uint32_t slot) const {
  const auto [first, last] = std::equal_range(
      weights_.ranges.begin(), weights_.ranges.end(), FileRange{.slot = slot},
      [](const FileRange& left, const FileRange& right) { return left.slot < right.slot; });
  return {first, last};
}

Error WeightFileReader::bad(const FileRange& range, const std::string& why) const {
  const auto index = static_cast<size_t>(&range - weights_.ranges.data());
  return {ErrorCode::failed, "slot '" + slot_names_[index] + "' cannot be loaded from '" +
                                 weights_.files[range.file].name + "': " + why};
}

Status WeightFileReader::read(const FileRange& range, const Take& take) {
  piece_.resize(kPiece);
  uint32_t sum = 0;
  for (uint64_t at = 0; at < range.bytes;) {
    const uint64_t wanted = std::min<uint64_t>(kPiece, range.bytes - at);
    const ssize_t got = ::pread(descriptors_[range.file].get(), piece_.data(), wanted,
                                static_cast<off_t>(range.file_offset + at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return bad(range, std::strerror(errno));
    if (got == 0) {
      return bad(range, "it ends at byte " + std::to_string(range.file_offset + at) +
                            ", and had more when the job was made: write a new file and rename it, "
                            "do not change one that is in use");
    }
    const auto bytes = static_cast<uint64_t>(got);
    if (range.has_crc32) {
      sum = static_cast<uint32_t>(
          ::crc32_z(sum, reinterpret_cast<const Bytef*>(piece_.data()), bytes));
    }
    if (Status taken = take(at, piece_.data(), bytes); !taken) return taken;
    at += bytes;
    fault_point("worker.weights_part");
  }
  if (!range.has_crc32 || sum == range.crc32) return {};
  return bad(range, "its bytes have the CRC-32 " + std::to_string(sum) + " instead of " +
                        std::to_string(range.crc32) +
                        ": the file is damaged; take it from its source again");
}

Status WeightFileReader::check_unchanged() const {
  for (size_t i = 0; i < descriptors_.size(); ++i) {
    const WeightFile& described = weights_.files[i];
    struct stat now {};
    const bool known = ::fstat(descriptors_[i].get(), &now) == 0;
    const int64_t modified_ns =
        int64_t{now.st_mtim.tv_sec} * 1'000'000'000 + int64_t{now.st_mtim.tv_nsec};
    if (known && static_cast<uint64_t>(now.st_size) == described.bytes &&
        modified_ns == described.modified_ns) {
      continue;
    }
    return Error{ErrorCode::failed,
                 "'" + described.name +
                     "' was written to since the job was made, so its weights may be of two "
                     "versions: write a new file and rename it, and make the job again"};
  }
  return {};
}

}  // namespace laneway::pipeline
