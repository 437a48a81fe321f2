// OutsideImages: the bytes of images that are not, or not only, in the pool. The host store is
// memory; what lies in the spill file has a checksum, because a disk may return something else.
// Both outlive the worker: a successor gets the same. Not thread-safe, but for one thread that
// copies from and to the store beside one for the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/pool/outside_place.h"
#include "memory/device/device.h"
#include "memory/os/shared_memory.h"
#include "memory/os/spill_file.h"
#include "memory/pool_access.h"

namespace laneway::pipeline {

class OutsideImages {
 public:
  using Store = std::optional<memory::SharedMemory>;
  using Spill = std::optional<memory::SpillFile>;
  // Asked between two pieces of some MiB, with what is moved so far: whether the copy is wanted.
  using GoesOn = std::function<bool(Bytes moved)>;
  // Told of each piece, in their order, that the image's first `bytes` are there for what waits for
  // `there` (null: for everybody).
  using Started = std::function<void(Bytes bytes, std::shared_ptr<memory::Event> there)>;

  OutsideImages() = default;
  OutsideImages(Store store, Spill spill) : store_(std::move(store)), spill_(std::move(spill)) {}

  bool exist() const { return store_ || spill_; }
  // Where the image lies in the CPU's memory; null when it is in the file.
  std::byte* in_memory(const lanes::OutsidePlace& place) const;

  // Copies `size` bytes of the pool there; their checksum (0 where none is needed). Errors:
  // cancelled; out_of_memory; failed when the file does not take them; device_lost.
  Result<uint64_t> save(memory::PoolAccess& pool, const std::byte* image, Bytes size,
                        const lanes::OutsidePlace& to, const GoesOn& goes_on);
  // The beginning of an image, which is in the pool: at its place in the image already, or in a
  // range beside it.
  struct Prefix {
    const std::byte* data = nullptr;
    Bytes size;
  };
  // Copies them back, what is behind `prefix` alone by the link; failed, too, when they are not
  // what was saved. Nothing is under way when it returns. `started` may be empty. Requires, with a
  // prefix and a place in the file: the CPU reaches the pool.
  Status load(memory::PoolAccess& pool, std::byte* image, Bytes size,
              const lanes::OutsidePlace& from, uint64_t checksum, const GoesOn& goes_on,
              const Prefix& prefix, const Started& started = {});

 private:
  // Whether the range is inside what there is: places come from another process.
  Status check(const lanes::OutsidePlace& place, Bytes size) const;
  static Status move_prefix(memory::PoolAccess& pool, std::byte* image, const Prefix& prefix,
                            const GoesOn& goes_on, const Started& started);
  Status load_from_memory(memory::PoolAccess& pool, std::byte* image, Bytes size,
                          const lanes::OutsidePlace& from, Bytes done, const GoesOn& goes_on,
                          const Started& started);
  Status load_from_file(memory::PoolAccess& pool, std::byte* image, Bytes size,
                        const lanes::OutsidePlace& from, uint64_t checksum, Bytes done,
                        const GoesOn& goes_on, const Started& started);
  // Makes the store's pages present where this process has not done so: a page that is touched
  // without memory for it would be the end of the process, and even to ask for all costs time.
  Status make_present(Bytes at, Bytes size);
  // Pins the store's memory around there, where copies gain by it; what cannot be pinned is copied
  // more slowly, which is said once.
  void pin(memory::PoolAccess& pool, Bytes at, Bytes size);

  Store store_;
  Spill spill_;
  std::vector<std::byte> piece_;  // on its way between pool and file: the file's thread's
  std::vector<bool> present_;     // by pieces of the store: the other one's, and so what follows
  std::map<int64_t, std::unique_ptr<memory::MemoryBlock>> pinned_;  // by their number
  bool can_pin_ = true;
};

}  // namespace laneway::pipeline
