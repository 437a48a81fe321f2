#include "service/supervisor/held_table.h"

#include <utility>

#include "service/supervisor/limits.h"

namespace laneway::service {
namespace {

uint64_t size_of(const HeldTable::Entry& entry) { return entry.key.size() + entry.note.size(); }

Error over(const std::string& key, const std::string& what, uint64_t value, uint64_t limit) {
  return Error{ErrorCode::refused, "'" + key + "' cannot be held: " + what + " " +
                                       std::to_string(value) + " is over the limit of " +
                                       std::to_string(limit)};
}

}  // namespace

Status HeldTable::hold(Entry entry) {
  if (entry.key.empty() || entry.key.size() > limits::kMaxHeldKeyBytes) {
    return over(entry.key.substr(0, limits::kMaxHeldKeyBytes), "a key of bytes", entry.key.size(),
                limits::kMaxHeldKeyBytes);
  }
  if (entry.note.size() > limits::kMaxHeldNoteBytes) {
    return over(entry.key, "a note of bytes", entry.note.size(), limits::kMaxHeldNoteBytes);
  }
  const auto found = places_.find(entry.key);
  const uint64_t replaced = found == places_.end() ? 0 : size_of(*found->second);
  const uint64_t open =
      descriptors_ - (found == places_.end() ? 0 : found->second->fds.size()) + entry.fds.size();
  // One that has fewer than before goes in whatever the bound is.
  if (open > most_descriptors_ && open > descriptors_) {
    return over(entry.key, "open files in all", open, most_descriptors_);
  }
  const uint64_t bytes = bytes_ - replaced + size_of(entry);
  if (bytes > limits::kMaxHeldBytes) {
    return over(entry.key, "bytes in all", bytes, limits::kMaxHeldBytes);
  }
  if (found != places_.end()) {
    *found->second = std::move(entry);
  } else {
    if (entries_.size() >= limits::kMaxHeldKeys) {
      return over(entry.key, "key number", entries_.size() + 1, limits::kMaxHeldKeys);
    }
    const auto place = entries_.insert(entries_.end(), std::move(entry));
    places_.emplace(place->key, place);
  }
  bytes_ = bytes;
  descriptors_ = open;
  return {};
}

Status HeldTable::renote(const std::string& key, std::vector<uint8_t> note, uint32_t descriptors) {
  const auto found = places_.find(key);
  if (found == places_.end()) return {};
  Entry& entry = *found->second;
  const uint64_t bytes = bytes_ - entry.note.size() + note.size();
  if (note.size() > limits::kMaxHeldNoteBytes) {
    return over(key, "a note of bytes", note.size(), limits::kMaxHeldNoteBytes);
  }
  if (bytes > limits::kMaxHeldBytes && bytes > bytes_) {
    return over(key, "bytes in all", bytes, limits::kMaxHeldBytes);
  }
  entry.note = std::move(note);
  bytes_ = bytes;
  if (descriptors < entry.fds.size()) {
    descriptors_ -= entry.fds.size() - descriptors;
    entry.fds.resize(descriptors);
  }
  return {};
}

bool HeldTable::release(const std::string& key) {
  const auto found = places_.find(key);
  if (found == places_.end()) return false;
  bytes_ -= size_of(*found->second);
  descriptors_ -= found->second->fds.size();
  entries_.erase(found->second);
  places_.erase(found);
  return true;
}

}  // namespace laneway::service
