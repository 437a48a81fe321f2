// Stream, Event: what the handles stand for. Plain data, guarded by the Gpu's mutex.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/fake_cuda/work.h"

namespace laneway::fake_cuda {

class Capture;
struct Node;

struct Stream {
  uint64_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;
  int holds = 0;
  std::deque<Work> queue;
  bool running = false;        // what was the queue's front is being done
  std::shared_ptr<Mark> last;  // of the newest work; null: there never was any
  // While the stream takes part in a capture: what is recorded next comes after these nodes.
  std::shared_ptr<Capture> capture;
  std::vector<std::shared_ptr<Node>> capture_tail;

  bool blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct Event {
  unsigned flags = 0;
  std::shared_ptr<Mark> mark;  // of the latest record; null: never recorded
  // When the latest record lies in a capture: that one, and what came before the event in it.
  std::shared_ptr<Capture> capture;
  std::vector<std::shared_ptr<Node>> capture_tail;

  bool timed() const { return (flags & CU_EVENT_DISABLE_TIMING) == 0; }
};

}  // namespace laneway::fake_cuda
