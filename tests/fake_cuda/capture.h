// Capture: a stream's work being recorded into a graph instead of done. Streams join it by waiting
// for events that were recorded in it. What would have to wait for, or look at, work that is only
// recorded is refused and spoils the capture, as on a device. Guarded by the Gpu's mutex.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake_cuda/stream.h"
#include "tests/fake_cuda/work.h"

namespace laneway::fake_cuda {

class Gpu;

struct Node {
  std::shared_ptr<const Step> step;
  std::vector<Node*> after;
};

// Nodes in the order in which they were recorded, which is one that their edges allow.
struct Graph {
  std::vector<std::shared_ptr<Node>> nodes;
};

struct Executable {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<Mark> last;  // launches of one executable follow each other
};

class Capture {
 public:
  using Nodes = std::vector<std::shared_ptr<Node>>;

  // `origin` is not captured yet. `graph`: the handle under which the graph is known already.
  Capture(uint64_t id, CUstreamCaptureMode mode, std::shared_ptr<Stream> origin, CUgraph graph);

  uint64_t id() const { return id_; }
  CUgraph graph() const { return graph_; }
  bool active() const { return active_; }
  bool spoiled() const { return spoiled_; }
  void spoil() { spoiled_ = true; }
  const std::shared_ptr<Graph>& recorded() const { return recorded_; }

  CUresult add(Stream& stream, std::shared_ptr<const Step> step);
  // `stream` waits for an event of the capture: takes part in it from now on.
  CUresult join(const std::shared_ptr<Stream>& stream, const Nodes& after);
  // Lets the streams go. An error when the capture is not whole.
  CUresult end(const Stream& origin);

  // Whether this thread must not make calls that could wait for the device, because of the capture.
  bool forbids_waiting() const;

 private:
  bool reaches_all(const Nodes& from) const;

  const uint64_t id_;
  const CUstreamCaptureMode mode_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const CUgraph graph_;
  std::vector<std::shared_ptr<Stream>> streams_;  // the first one: where it began
  std::shared_ptr<Graph> recorded_ = std::make_shared<Graph>();
  bool active_ = true;
  bool spoiled_ = false;
};

// How this thread takes captures of others (cuThreadExchangeStreamCaptureMode).
CUstreamCaptureMode& thread_capture_mode();

}  // namespace laneway::fake_cuda
