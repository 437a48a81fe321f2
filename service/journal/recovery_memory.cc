#include "service/journal/recovery_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace laneway::service {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto release_order = std::memory_order_release;

constexpr uint64_t kMagic = 0x6c6e7772'65636f76;  // "lnwrecov"
constexpr uint32_t kVersion = 2;
constexpr int64_t kPage = 4096;

// What an entry of the directory says. It is read only when it is not free.
enum class EntryState : uint32_t { free = 0, begun = 1, published = 2 };

bool is_kind(uint32_t kind) {
  return kind >= static_cast<uint32_t>(PieceKind::undo_log) &&
         kind <= static_cast<uint32_t>(PieceKind::write_log);
}

}  // namespace

struct RecoveryMemory::Entry {
  std::atomic<uint32_t> state;  // written last, and first when the piece goes
  std::atomic<uint32_t> kind;
  std::atomic<uint64_t> owner;
  std::atomic<uint32_t> number;
  std::atomic<uint32_t> unused;
  std::atomic<uint64_t> offset;
  std::atomic<uint64_t> bytes;
};

struct RecoveryMemory::Memory {
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> version;
  alignas(64) std::array<Entry, kMaxPieces> entries;
};

namespace {

// Where the first piece may lie.
template <class Memory>
constexpr Bytes directory_bytes() {
  return Bytes(static_cast<int64_t>(sizeof(Memory))).aligned_up(kPage);
}

}  // namespace

Result<std::unique_ptr<RecoveryMemory>> RecoveryMemory::map(int descriptor, Bytes size) {
  static_assert(directory_bytes<Memory>() < kSmallest);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || status.st_size != size.count() || size < kSmallest) {
    return Error{ErrorCode::invalid_argument,
                 "descriptor " + std::to_string(descriptor) + " has " +
                     std::to_string(status.st_size) + " bytes, a recovery memory of " +
                     format_bytes(size) + " was announced, and has at least " +
                     format_bytes(kSmallest)};
  }
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return Error{ErrorCode::unavailable,
                 std::string("no descriptor for the recovery memory: ") + std::strerror(errno)};
  }
  void* mapped = ::mmap(nullptr, static_cast<size_t>(size.count()), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, copy, 0);
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    ::close(copy);
    return Error{ErrorCode::failed,
                 std::string("mapping the recovery memory: ") + std::strerror(reason)};
  }
  return std::unique_ptr<RecoveryMemory>(
      new RecoveryMemory(copy, static_cast<std::byte*>(mapped), size));
}

RecoveryMemory::~RecoveryMemory() {
  ::munmap(base_, static_cast<size_t>(size_.count()));
  ::close(descriptor_);
}

RecoveryMemory::Memory& RecoveryMemory::memory() const { return *reinterpret_cast<Memory*>(base_); }

RecoveryMemory::Entry& RecoveryMemory::entry(const Place& place) const {
  return memory().entries.at(place.entry);
}

std::span<std::byte> RecoveryMemory::bytes(const Place& place) const {
  return {base_ + place.offset.count(), static_cast<size_t>(place.size.count())};
}

Status RecoveryMemory::take_over(std::atomic<uint64_t>* shown) {
  const MutexLock lock(mutex_);
  shown_ = shown;
  if (Status present = make_present(Bytes(), directory_bytes<Memory>()); !present) return present;
  Memory& all = memory();
  if (all.magic.load(std::memory_order_acquire) == 0) {
    all.version.store(kVersion, relaxed);
    all.magic.store(kMagic, release_order);
  }
  if (all.magic.load(relaxed) != kMagic || all.version.load(relaxed) != kVersion) {
    return Error{ErrorCode::invalid_argument,
                 "the recovery memory is not one of version " + std::to_string(kVersion) +
                     ": supervisor and worker must be of the same build"};
  }
  taken_[Bytes()] = directory_bytes<Memory>();
  for (uint32_t index = 0; index < kMaxPieces; ++index) take_entry(index);
  clear_gaps();
  show_taken();
  return {};
}

void RecoveryMemory::take_entry(uint32_t index) {
  Entry& entry = memory().entries[index];
  const auto state = static_cast<EntryState>(entry.state.load(std::memory_order_acquire));
  if (state == EntryState::free) return;
  const auto offset = static_cast<int64_t>(entry.offset.load(relaxed));
  const auto count = static_cast<int64_t>(entry.bytes.load(relaxed));
  const Place place{index, Bytes(offset), Bytes(count)};
  const auto after = taken_.lower_bound(place.offset);
  const bool fits = offset % kPage == 0 && count % kPage == 0 && offset > 0 && count > 0 &&
                    count <= size_.count() && offset <= size_.count() - count &&
                    (after == taken_.end() || place.offset + place.size <= after->first) &&
                    after != taken_.begin() &&
                    std::prev(after)->first + std::prev(after)->second <= place.offset;
  if (state != EntryState::published || !fits || !is_kind(entry.kind.load(relaxed))) {
    entry.state.store(static_cast<uint32_t>(EntryState::free), release_order);
    return;  // clear_gaps has its bytes
  }
  const PieceKey key{static_cast<PieceKind>(entry.kind.load(relaxed)), entry.owner.load(relaxed),
                     entry.number.load(relaxed)};
  taken_[place.offset] = place.size;
  // The predecessor may have died between publishing a piece and dropping the former one: nothing
  // stands on the new one yet, so either will do.
  if (!pieces_.try_emplace(key, place).second) drop(place);
}

void RecoveryMemory::clear_gaps() {
  Bytes end;
  const auto clear = [this](Bytes from, Bytes to) {
    if (from >= to) return;
    ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from.count(),
                (to - from).count());
  };
  for (const auto& [offset, size] : taken_) {
    clear(end, offset);
    end = offset + size;
  }
  clear(end, Bytes(size_.count() / kPage * kPage));
}

std::optional<uint32_t> RecoveryMemory::free_entry() const {
  const auto& entries = memory().entries;
  for (uint32_t index = 0; index < entries.size(); ++index) {
    if (entries[index].state.load(relaxed) == static_cast<uint32_t>(EntryState::free)) return index;
  }
  return {};
}

std::optional<Bytes> RecoveryMemory::free_offset(Bytes size) const {
  Bytes end;
  for (const auto& [offset, taken] : taken_) {
    if (offset - end >= size) return end;
    end = offset + taken;
  }
  if (size_ - end >= size) return end;
  return {};
}

Bytes RecoveryMemory::taken() const {
  Bytes sum;
  for (const auto& [offset, size] : taken_) sum += size;
  return sum;
}

void RecoveryMemory::show_taken() {
  if (shown_ != nullptr) shown_->store(static_cast<uint64_t>(taken().count()), relaxed);
}

Error RecoveryMemory::no_room(Bytes size) const {
  return {ErrorCode::out_of_memory, "the recovery memory has no piece of " + format_bytes(size) +
                                        " left: " + format_bytes(taken()) + " of " +
                                        format_bytes(size_) +
                                        " are in use; give lanewayd a larger --recovery-memory"};
}

Status RecoveryMemory::make_present(Bytes offset, Bytes size) const {
  if (::fallocate(descriptor_, 0, offset.count(), size.count()) != 0) {
    return Error{ErrorCode::out_of_memory, "the machine has no " + format_bytes(size) +
                                               " for the recovery memory: " + std::strerror(errno)};
  }
  // The page tables too, so that its first use costs no faults; a kernel that cannot, lets it cost.
  ::madvise(base_ + offset.count(), static_cast<size_t>(size.count()), MADV_POPULATE_WRITE);
  return {};
}

Result<RecoveryMemory::Place> RecoveryMemory::begin(PieceKey key, Bytes size) {
  LW_CHECK(size > Bytes() && unpublished_.count(key) == 0, "one piece is made at a time");
  const Bytes pages = size.aligned_up(kPage);
  const auto index = free_entry();
  const auto offset = free_offset(pages);
  if (!index || !offset) return no_room(pages);
  const Place place{*index, *offset, pages};
  Entry& entry = this->entry(place);
  entry.kind.store(static_cast<uint32_t>(key.kind), relaxed);
  entry.owner.store(key.owner, relaxed);
  entry.number.store(key.number, relaxed);
  entry.offset.store(static_cast<uint64_t>(offset->count()), relaxed);
  entry.bytes.store(static_cast<uint64_t>(pages.count()), relaxed);
  entry.state.store(static_cast<uint32_t>(EntryState::begun), release_order);
  taken_[place.offset] = place.size;
  if (Status present = make_present(place.offset, place.size); !present) {
    drop(place);
    return present.error();
  }
  show_taken();
  unpublished_[key] = place;
  return place;
}

void RecoveryMemory::finish(PieceKey key) {
  const auto made = unpublished_.find(key);
  LW_CHECK(made != unpublished_.end(), "a piece is made before it is published");
  const Place place = made->second;
  unpublished_.erase(made);
  entry(place).state.store(static_cast<uint32_t>(EntryState::published), release_order);
  const auto [found, is_new] = pieces_.try_emplace(key, place);
  if (!is_new) drop(std::exchange(found->second, place));
}

void RecoveryMemory::drop(const Place& place) {
  entry(place).state.store(static_cast<uint32_t>(EntryState::free), release_order);
  ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place.offset.count(),
              place.size.count());
  taken_.erase(place.offset);
  show_taken();
}

Result<std::span<std::byte>> RecoveryMemory::make(PieceKey key, Bytes size) {
  const MutexLock lock(mutex_);
  const auto place = begin(key, size);
  if (!place) return place.error();
  return bytes(place.value());
}

void RecoveryMemory::publish(PieceKey key) {
  const MutexLock lock(mutex_);
  finish(key);
}

void RecoveryMemory::discard(PieceKey key) {
  const MutexLock lock(mutex_);
  const auto made = unpublished_.find(key);
  if (made == unpublished_.end()) return;
  drop(made->second);
  unpublished_.erase(made);
}

Result<std::span<std::byte>> RecoveryMemory::add(PieceKey key, Bytes size) {
  const MutexLock lock(mutex_);
  const auto place = begin(key, size);
  if (!place) return place.error();
  finish(key);
  return bytes(place.value());
}

std::span<std::byte> RecoveryMemory::find(PieceKey key) const {
  const MutexLock lock(mutex_);
  const auto found = pieces_.find(key);
  return found == pieces_.end() ? std::span<std::byte>() : bytes(found->second);
}

void RecoveryMemory::release(PieceKey key) {
  const MutexLock lock(mutex_);
  const auto found = pieces_.find(key);
  if (found == pieces_.end()) return;
  const Place place = found->second;
  pieces_.erase(found);
  drop(place);
}

void RecoveryMemory::release_all(PieceKind kind, uint64_t owner) {
  const MutexLock lock(mutex_);
  const auto first = pieces_.lower_bound({.kind = kind, .owner = owner, .number = 0});
  auto end = first;
  for (; end != pieces_.end() && end->first.kind == kind && end->first.owner == owner; ++end) {
    drop(end->second);
  }
  pieces_.erase(first, end);
}

std::vector<PieceKey> RecoveryMemory::keys() const {
  const MutexLock lock(mutex_);
  std::vector<PieceKey> all;
  for (const auto& [key, place] : pieces_) all.push_back(key);
  return all;
}

Bytes RecoveryMemory::used() const {
  const MutexLock lock(mutex_);
  return taken();
}

}  // namespace laneway::service
