// BlockPool: the blocks of one graph in a link's segments. The block that was given back last is
// taken first, so that a caller who waits for each iteration uses one block, whose pages are warm.
// Blocks keep their pool and their segment. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "service/client/job_link.h"

namespace laneway::service {

// A place for the bytes of one request.
struct Block {
  std::shared_ptr<Segment> segment;
  uint64_t offset = 0;

  std::byte* data() const { return segment->data() + offset; }
};
using BlockLease = std::shared_ptr<const Block>;

class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  BlockPool(std::shared_ptr<JobLink> link, uint64_t stride)
      : link_(std::move(link)), stride_(stride) {}

  // A block that is the caller's until the last copy of the lease is gone. busy: as many as can be
  // in flight are out; else why there is no memory.
  Result<BlockLease> take() LW_EXCLUDES(mutex_);

 private:
  BlockLease lease(Block block);
  void give_back(Block block) LW_EXCLUDES(mutex_);

  const std::shared_ptr<JobLink> link_;
  const uint64_t stride_;
  Mutex mutex_;
  std::vector<Block> free_ LW_GUARDED_BY(mutex_);
  uint32_t made_ LW_GUARDED_BY(mutex_) = 0;
};

// StatePool: the blocks of accesses to a job's state, of any size, each a segment. One is kept for
// the next access: state is read again and again, and fresh pages cost more than the copy.
// Thread-safe.
class StatePool : public std::enable_shared_from_this<StatePool> {
 public:
  explicit StatePool(std::shared_ptr<JobLink> link) : link_(std::move(link)) {}

  Result<BlockLease> take(uint64_t bytes) LW_EXCLUDES(mutex_);

 private:
  void give_back(std::shared_ptr<Segment> segment) LW_EXCLUDES(mutex_);

  const std::shared_ptr<JobLink> link_;
  Mutex mutex_;
  std::shared_ptr<Segment> kept_ LW_GUARDED_BY(mutex_);
};

}  // namespace laneway::service
