#include "base/weight_files.h"

#include "base/limits.h"

namespace laneway {
namespace {

Error invalid(std::string message) { return {ErrorCode::invalid_argument, std::move(message)}; }

// Whether [offset, offset + bytes) lies in `room` bytes.
bool lies_in(uint64_t offset, uint64_t bytes, uint64_t room) {
  return bytes <= room && offset <= room - bytes;
}

std::string range_text(uint64_t offset, uint64_t bytes) {
  return std::to_string(bytes) + " bytes from " + std::to_string(offset) + " on";
}

}  // namespace

Status check_weight_files(std::span<const ImageSlot> slots, const WeightFiles& weights) {
  if (weights.files.size() > limits::kMaxWeightFiles) {
    return invalid("the weights lie in " + std::to_string(weights.files.size()) +
                   " files; a job's may lie in " + std::to_string(limits::kMaxWeightFiles) +
                   " at most: join some of them");
  }
  const FileRange* before = nullptr;
  for (const FileRange& range : weights.ranges) {
    if (range.slot >= slots.size() || range.file >= weights.files.size()) {
      return invalid("slot " + std::to_string(range.slot) + " is said to lie in file " +
                     std::to_string(range.file) + "; the job has " + std::to_string(slots.size()) +
                     " slots and " + std::to_string(weights.files.size()) + " files");
    }
    const ImageSlot& slot = slots[range.slot];
    const WeightFile& file = weights.files[range.file];
    if (!lies_in(range.slot_offset, range.bytes, slot.bytes)) {
      return invalid("slot '" + slot.name + "' has " + std::to_string(slot.bytes) +
                     " bytes; a file is said to have " +
                     range_text(range.slot_offset, range.bytes));
    }
    if (!lies_in(range.file_offset, range.bytes, file.bytes)) {
      return invalid("slot '" + slot.name + "' is said to lie in '" + file.name + "', " +
                     range_text(range.file_offset, range.bytes) + "; the file has " +
                     std::to_string(file.bytes) + ": it is cut short, or another one");
    }
    const bool ordered =
        before == nullptr || before->slot < range.slot ||
        (before->slot == range.slot && range.slot_offset - before->slot_offset >= before->bytes &&
         range.slot_offset >= before->slot_offset);
    if (!ordered) {
      return invalid("the ranges of files are not in the order of slots and offsets, or overlap, " +
                     std::string("at slot '") + slot.name + "'");
    }
    before = &range;
  }
  return {};
}

}  // namespace laneway
