// ExecutorHooks: what the executor asks of its lane in the two situations that are not plain
// running: something to wait for, and the entry of the commit phase. Called on the executor's
// thread; may block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laneway::lanes {

// What is decided before the first persistent write.
enum class CommitDecision : uint8_t {
  go,       // all of the rest fits: nothing stops the iteration any more
  grow,     // it does not: abandoned as out of its lane
  abandon,  // give way: abandoned, to be run again
  cancel,   // the job is over
};

class ExecutorHooks {
 public:
  virtual ~ExecutorHooks() = default;

  // `bits` of control::kWait are set before node `node`. Blocks until what they stand for is there
  // and has cleared them, or until any other bit of the word changes; the executor reads the word
  // again after it.
  virtual void wait(uint32_t bits, size_t node) = 0;

  // Before node `node`, the first that writes persistent memory; once per iteration, not for
  // graphs without such a node. While it blocks it watches the control word for control::kStop,
  // which has no effect after it answered go. The place to check that the rest fits, and for undo
  // logs.
  virtual CommitDecision enter_commit_phase(size_t node) = 0;
};

}  // namespace laneway::lanes
