// HostStore: images in the machine's memory, which a device copies from and to by itself. It has no
// checksums: memory gives back what it got.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "memory/os/shared_memory.h"
#include "pipeline/outside_store.h"

namespace laneway::pipeline {

class HostStore final : public OutsideStore {
 public:
  explicit HostStore(memory::SharedMemory memory) : memory_(std::move(memory)) {}

  Bytes size() const override { return memory_.size(); }
  std::byte* in_memory() const override { return memory_.data(); }
  bool may_stall() const override { return false; }
  Result<uint64_t> save(memory::PoolAccess& pool, const std::byte* image, Bytes size, Bytes at,
                        const GoesOn& goes_on) override;
  Status load(memory::PoolAccess& pool, std::byte* image, const Saved& saved, Bytes there,
              const GoesOn& goes_on, const Started& started) override;

 private:
  // Makes pages present where this process has not done so: a page that is touched without memory
  // for it would be the end of the process, and even to ask for all costs time.
  Status make_present(Bytes at, Bytes size);
  // Pins the memory around there, where copies gain by it; what cannot be pinned is copied more
  // slowly, which is said once.
  void pin(memory::PoolAccess& pool, Bytes at, Bytes size);

  memory::SharedMemory memory_;
  std::vector<bool> present_;                                       // by pieces
  std::map<int64_t, std::unique_ptr<memory::MemoryBlock>> pinned_;  // by their number
  bool can_pin_ = true;
};

}  // namespace laneway::pipeline
