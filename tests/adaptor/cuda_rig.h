// CudaRig: the plugin's backend on the fake device, with a pool and lanes in it, for tests that
// call torch's CUDA operators as a runner would. What they compute means nothing; where they
// allocate, on which stream they run and what they leave behind does.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "adaptor/cuda/cuda_backend.h"
#include "adaptor/cuda/cuda_lane.h"
#include "memory/lane_arena.h"

namespace laneway::testing {

class CudaRig {
 public:
  explicit CudaRig(const adaptor::BackendOptions& options = {})
      : backend_(adaptor::CudaBackend::open(0, options).value()),
        pool_(backend_->device().allocate_pool(kPoolSize).value()) {}

  // CudaBackend::open gives one of torch's.
  adaptor::TorchBackend& backend() { return static_cast<adaptor::TorchBackend&>(*backend_); }
  std::byte* pool() { return pool_->data(); }

  // A lane in a piece of the pool of its own.
  struct Lane {
    std::unique_ptr<adaptor::DeviceLane> device;
    std::unique_ptr<memory::LaneArena> arena;

    adaptor::CudaLane& cuda() { return dynamic_cast<adaptor::CudaLane&>(*device); }
    // One iteration on this thread, waited for.
    template <class Body>
    memory::LaneArena::Use run(Body body) {
      device->enter(*arena, lanes::NumericContext());
      arena->begin_probe();
      body();
      memory::LaneArena::Use use = arena->end();
      EXPECT_TRUE(device->drain().ok());
      device->leave();
      return use;
    }
  };
  Lane make_lane() {
    Lane made{backend_->make_lane().value(),
              std::make_unique<memory::LaneArena>(backend_->alignment())};
    made.arena->bind(pool() + next_.count(), kLaneSize);
    next_ += kLaneSize;
    return made;
  }

  // With room for a workspace of cuBLAS.
  static constexpr Bytes kLaneSize = mib(48);
  static constexpr Bytes kPoolSize = kLaneSize * 8;

 private:
  std::unique_ptr<adaptor::Backend> backend_;
  std::unique_ptr<memory::MemoryBlock> pool_;
  Bytes next_;
};

}  // namespace laneway::testing
