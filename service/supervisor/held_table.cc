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
  return {};
}

bool HeldTable::release(const std::string& key) {
  const auto found = places_.find(key);
  if (found == places_.end()) return false;
  bytes_ -= size_of(*found->second);
  entries_.erase(found->second);
  places_.erase(found);
  return true;
}

}  // namespace laneway::service
