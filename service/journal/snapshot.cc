#include "service/journal/snapshot.h"

#include <atomic>

#include "base/check.h"

namespace laneway::service {

struct Snapshot::Header {
  std::atomic<uint64_t> number;  // one more than the request's; 0: it is not whole
};

Bytes Snapshot::room_for(Bytes image) { return Bytes(static_cast<int64_t>(kHeaderBytes)) + image; }

Snapshot::Header& Snapshot::header() const {
  LW_CHECK(has_memory(), "a snapshot has memory");
  return *reinterpret_cast<Header*>(memory_.data());
}

std::span<std::byte> Snapshot::bytes() const { return memory_.subspan(kHeaderBytes); }

void Snapshot::begin() {
  header().number.store(0, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void Snapshot::end(uint64_t number) {
  header().number.store(number + 1, std::memory_order_release);
}

std::optional<uint64_t> Snapshot::number() const {
  if (!has_memory()) return {};
  const uint64_t number = header().number.load(std::memory_order_acquire);
  if (number == 0) return {};
  return number - 1;
}

void Snapshot::forget() {
  if (has_memory()) begin();
}

}  // namespace laneway::service
