// Stream, Event: what the handles stand for. Plain data, guarded by the Gpu's mutex.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "tests/fake_cuda/work.h"

namespace laneway::fake_cuda {

struct Stream {
  uint64_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;
  int holds = 0;
  std::deque<Work> queue;
  std::shared_ptr<Mark> last;  // of the newest work; null: there never was any

  bool blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct Event {
  unsigned flags = 0;
  std::shared_ptr<Mark> mark;  // of the latest record; null: never recorded

  bool timed() const { return (flags & CU_EVENT_DISABLE_TIMING) == 0; }
};

}  // namespace laneway::fake_cuda
