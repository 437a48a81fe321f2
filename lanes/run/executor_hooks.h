// ExecutorHooks: the executor's calls to its lane: when it must pause, and before the commit phase.
// The executor's thread makes them; they may block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace laneway::lanes {

// The lane's decision before the first persistent write.
enum class CommitDecision : uint8_t {
  go,       // the rest of the iteration fits: nothing stops it any more
  grow,     // it does not fit: the iteration is abandoned as out of its lane
  abandon,  // the iteration is abandoned, to be run again
  cancel,   // the job is over
};

class ExecutorHooks {
 public:
  virtual ~ExecutorHooks() = default;

  // Called before node `node` while control::kPause is set and the commit phase has not begun.
  // Blocks until the bit is cleared or one of control::kStop is set; the executor reads the word
  // again afterwards.
  virtual void pause(size_t node) = 0;

  // Called once per iteration, before node `node`, the first that writes persistent memory; never
  // for graphs without such a node. While it blocks it must watch the control word for
  // control::kStop, which has no effect once it has answered go. It must check that the rest of the
  // iteration fits.
  virtual CommitDecision enter_commit_phase(size_t node) = 0;
};

}  // namespace laneway::lanes
