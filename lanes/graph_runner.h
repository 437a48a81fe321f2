// GraphRunner: what the executor needs from whoever can run a graph's nodes. The adaptor implements
// it over torch's dispatcher; tests implement it over synthetic nodes. One runner belongs to one
// graph of one job and is driven by one thread at a time; it never looks at lanes, turns or
// policies.
//
// Protocol of an iteration: begin, run_node(0), …, run_node(node_count() - 1), finish; or, at any
// point after begin, abandon. After finish or abandon nothing ephemeral is alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace laneway::lanes {

// One input of an iteration: a tensor's bytes in the client's memory (read only until the
// iteration ends), or a number.
struct InputView {
  const void* data =
      nullptr;  // tensor: `bytes` bytes, contiguous in the layout of the graph's value
  uint64_t bytes = 0;
  double real = 0;  // number inputs
  int64_t integer = 0;
};

// Where one output goes: `bytes` bytes for a tensor (contiguous, row-major), 8 for a number.
struct OutputView {
  void* data = nullptr;
  uint64_t bytes = 0;
};

enum class NodeOutcome : uint8_t {
  done,
  out_of_lane,  // an allocation did not fit the lane; nothing of this node happened to persistent
                // memory
  failed,       // the operator reported an error: see last_error()
};

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;

  virtual size_t node_count() const = 0;
  // Index of the first node that writes persistent memory; node_count() when none does.
  virtual size_t first_write() const = 0;

  // Takes the inputs (bytes stay where they are) and saves the random state, so that abandon can
  // put it back. invalid_argument names the input whose size is not the graph's.
  virtual Status begin(std::span<const InputView> inputs) = 0;
  virtual NodeOutcome run_node(size_t index) = 0;
  // Copies the outputs out, drops every value. On a device that runs behind, the outputs are there
  // when the iteration that its lane enqueues next has retired.
  virtual Status finish(std::span<const OutputView> outputs) = 0;
  // Drops every value and restores the random state of begin. Before first_write() this leaves no
  // trace of the iteration.
  virtual void abandon() = 0;
  // After run_node answered failed: names the node, the operator and the user's line.
  virtual const Error& last_error() const = 0;
};

}  // namespace laneway::lanes
