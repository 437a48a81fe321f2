#include "memory/best_fit.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace laneway::memory {
namespace {

Bytes bytes_of(uint64_t count) { return Bytes(static_cast<int64_t>(count)); }

}  // namespace

BestFit::BestFit(int64_t alignment) : alignment_(alignment), space_(kUnboundedLane, alignment) {}

void BestFit::begin() {
  tape_ = {};
  peak_ = Bytes(0);
  if (live_.empty()) space_ = FreeList(kUnboundedLane, alignment_);
}

void BestFit::begin_at(const TapeCursor& cursor) {
  const AllocationTape& taped = cursor.planned().tape;
  const auto taken = static_cast<ptrdiff_t>(cursor.steps_taken());
  begin();
  tape_.allocations.assign(taped.allocations.begin(), taped.allocations.begin() + taken);
  tape_.frees.assign(taped.frees.begin(), taped.frees.begin() + cursor.frees_taken());
  std::vector<bool> freed(static_cast<size_t>(taken), false);
  for (const uint32_t index : tape_.frees) {
    LW_CHECK(index < freed.size(), "a lane's allocation was freed before it was made");
    freed[index] = true;
  }
  for (uint32_t i = 0; i < freed.size(); ++i) {
    const PlannedTape::Step& step = cursor.planned().steps[i];
    peak_ = std::max(peak_, bytes_of(step.end));
    if (freed[i]) continue;
    live_.emplace(step.offset, Live{step.bytes, i});
    const bool placed =
        space_.allocate_at(bytes_of(step.offset), padded_size(step.bytes, alignment_));
    LW_CHECK(placed, "two planned allocations overlap");
  }
}

BestFit::Use BestFit::end() {
  Use use;
  use.peak = peak_;
  use.allocations = tape_.allocations.size();
  use.live_count = live_.size();
  for (auto& [offset, live] : live_) {
    use.live_bytes += bytes_of(live.bytes);
    use.older_count += live.index == kOlder ? 1 : 0;
    live.index = kOlder;
  }
  use.tape = std::exchange(tape_, {});
  return use;
}

std::optional<uint64_t> BestFit::allocate(size_t bytes, Bytes capacity) {
  if (bytes > static_cast<uint64_t>(capacity.count())) return std::nullopt;
  const Bytes size = padded_size(bytes, alignment_);
  const std::optional<Bytes> offset = space_.allocate(size);
  if (!offset) return std::nullopt;
  if (*offset + size > capacity) {
    space_.free(*offset);
    return std::nullopt;
  }
  const auto index = static_cast<uint32_t>(tape_.allocations.size());
  live_.emplace(offset->count(), Live{bytes, index});
  tape_.allocations.push_back({bytes, static_cast<uint32_t>(tape_.frees.size())});
  peak_ = std::max(peak_, *offset + size);
  return static_cast<uint64_t>(offset->count());
}

uint64_t BestFit::free(uint64_t offset) {
  const auto entry = live_.find(offset);
  LW_CHECK(entry != live_.end(),
           "free of offset " + std::to_string(offset) + " of a lane, where nothing is alive");
  const uint64_t bytes = entry->second.bytes;
  if (entry->second.index != kOlder) tape_.frees.push_back(entry->second.index);
  live_.erase(entry);
  space_.free(bytes_of(offset));
  return bytes;
}

bool BestFit::adopt(uint64_t offset, size_t bytes) {
  if (live_.empty()) space_ = FreeList(kUnboundedLane, alignment_);
  if (!space_.allocate_at(bytes_of(offset), padded_size(bytes, alignment_))) return false;
  live_.emplace(offset, Live{bytes, kOlder});
  return true;
}

std::vector<BestFit::Block> BestFit::give_up() {
  std::vector<Block> blocks;
  for (const auto& [offset, live] : live_) blocks.push_back({offset, live.bytes});
  live_.clear();
  return blocks;
}

TapePosition BestFit::position() const {
  return {static_cast<uint32_t>(tape_.allocations.size()),
          static_cast<uint32_t>(tape_.frees.size())};
}

bool BestFit::is_alive_as_at(const PlannedTape& planned, const TapePosition& position) const {
  std::vector<bool> freed(position.allocations, false);
  for (uint32_t i = 0; i < position.frees; ++i) freed[planned.tape.frees[i]] = true;
  size_t alive = 0;
  for (uint32_t i = 0; i < position.allocations; ++i) {
    if (freed[i]) continue;
    const auto found = live_.find(planned.steps[i].offset);
    if (found == live_.end() || found->second.index != i) return false;
    ++alive;
  }
  return alive == live_.size();
}

Bytes BestFit::free_below(Bytes capacity) const {
  return live_.empty() ? capacity : capacity - space_.taken_bytes();
}

Bytes BestFit::largest_free_below(Bytes capacity) const {
  return live_.empty() ? capacity : space_.largest_free_below(capacity);
}

}  // namespace laneway::memory
