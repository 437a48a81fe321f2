// GraphRunner: runs a graph's nodes for the executor. The adaptor implements it over torch's
// dispatcher; tests implement it over synthetic nodes. One runner belongs to one graph of one job;
// one thread at a time may use it. It knows nothing of lanes, turns and policies.
//
// Protocol of an iteration: begin, run_node(0), …, run_node(node_count() - 1), finish; or, at any
// point after begin, abandon. After finish or abandon nothing ephemeral is alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace laneway::lanes {

// One input of an iteration: a tensor's bytes in the client's memory (not read after the iteration
// has ended), or a number.
struct InputView {
  const void* data =
      nullptr;  // tensor: `bytes` bytes, contiguous in the layout of the graph's value
  uint64_t bytes = 0;
  double real = 0;  // number inputs
  int64_t integer = 0;
};

// The place of one output: `bytes` bytes for a tensor (contiguous, row-major), 8 for a number.
struct OutputView {
  void* data = nullptr;
  uint64_t bytes = 0;
};

enum class NodeOutcome : uint8_t {
  done,
  out_of_lane,  // an allocation did not fit the lane; this node did not change persistent
                // memory
  failed,       // the operator reported an error: see last_error()
};

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;

  virtual size_t node_count() const = 0;
  // Index of the first node that writes persistent memory; node_count() when none does.
  virtual size_t first_write() const = 0;

  // Takes the inputs (their bytes must stay valid until the end of the iteration) and saves the
  // random state, so that abandon can restore it. invalid_argument names an input that has another
  // size than in the graph.
  virtual Status begin(std::span<const InputView> inputs) = 0;
  virtual NodeOutcome run_node(size_t index) = 0;
  // Copies the outputs to their places and drops every value. On an asynchronous device, the
  // outputs are there when the iteration that its lane enqueues next has retired.
  virtual Status finish(std::span<const OutputView> outputs) = 0;
  // Drops every value and restores the random state of begin. Before first_write() this leaves no
  // trace of the iteration.
  virtual void abandon() = 0;
  // The error of a run_node that returned failed; it names the node, the operator and the user's
  // line.
  virtual const Error& last_error() const = 0;
};

}  // namespace laneway::lanes
