// CudaEvent: an event of the driver, taken from the pool and given back to it. Until it is recorded
// it counts as done, although a former owner may have recorded it. Thread-safe.
#pragma once

#include <cuda.h>

#include <atomic>

#include "memory/device/cuda/cuda_event_pool.h"
#include "memory/device/device.h"

namespace laneway::memory {

class CudaEvent final : public Event {
 public:
  // Requires: `event` was taken from `pool`.
  CudaEvent(CudaEventPool& pool, CUevent event) : pool_(pool), event_(event) {}
  ~CudaEvent() override { pool_.give_back(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // Returns done when the device failed: nothing more will happen. synchronize() returns the error.
  EventState query() const override;
  Status synchronize() override;

  CUevent handle() const { return event_; }
  bool recorded() const { return recorded_.load(std::memory_order_acquire); }
  // A stream recorded it.
  void set_recorded() { recorded_.store(true, std::memory_order_release); }

 private:
  CudaEventPool& pool_;
  const CUevent event_;
  std::atomic<bool> recorded_{false};
};

}  // namespace laneway::memory
