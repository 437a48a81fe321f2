// DeviceGraph: one graph of a DeviceJob, decoded, checked and made ready for its device. It uses
// its job's image and generator, so it must not run after the job's end; it may be destroyed later.
// One thread at a time may run it; any thread may call its const functions.
//
// adaptor/run implements it over LibTorch; tests of the worker implement it with simple arithmetic.
#pragma once

#include <cstdint>
#include <string>

#include "adaptor/device/device_program.h"
#include "base/bytes.h"
#include "lanes/graph/graph.h"
#include "lanes/graph/graph_sizes.h"
#include "lanes/run/graph_runner.h"

namespace laneway::adaptor {

// What came of recording a graph's iterations.
struct Recordings {
  uint64_t made = 0;
  uint64_t nodes = 0;   // the nodes that the latest one stands for, from the first on
  std::string refused;  // why none is made any more: node, operator, the device's words; or empty
  friend bool operator==(const Recordings&, const Recordings&) = default;
};

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  virtual const lanes::Graph& graph() const = 0;
  // The prediction from the capture's sizes: E, and the need from each node on.
  virtual const lanes::GraphMemory& memory() const = 0;
  // What of it equal graphs of other jobs can use.
  virtual ProgramHandle program() const = 0;
  // The memory that a lane must have for the first, unplanned iteration.
  virtual Bytes probe_need() const = 0;
  // Threads that compute its nodes: the capture's, or 1 where the device does it without the CPU.
  virtual uint32_t threads() const = 0;
  // Whether an iteration changes the job's random state.
  virtual bool draws() const = 0;
  virtual lanes::GraphRunner& runner() = 0;
  // Whether iterations from the next one on may be recorded and replayed, where device and graph
  // allow it; false until the first call. Requires: no iteration runs.
  virtual void allow_replay(bool allowed) = 0;
  // From the next one on they are replayed where a recording of them exists; none is made.
  // Requires: no iteration runs.
  virtual void allow_existing_recordings() = 0;
  // Whether a recording stands for the first nodes of the iteration that has begun: it may use all
  // of the image and of the inputs as soon as its first node runs.
  virtual bool replays() const = 0;
  // How many iterations were replayed.
  virtual uint64_t replayed() const = 0;
  // Requires: no iteration runs.
  virtual const Recordings& recordings() const = 0;
};

}  // namespace laneway::adaptor
