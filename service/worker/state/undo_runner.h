// UndoRunner: a GraphRunner that saves the slots which a node is the first to write, before the
// node runs: late, so that their bytes are read right before the node needs them. Put around a
// graph's own runner; it saves nothing before begin_saving. Owns nothing.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "base/time.h"
#include "lanes/run/forwarding_runner.h"
#include "pipeline/image.h"
#include "service/journal/undo_log.h"
#include "service/worker/run/write_set.h"

namespace laneway::service {

class UndoRunner final : public lanes::ForwardingRunner {
 public:
  // All must outlive it. `image` is the job's, in memory that the CPU reaches.
  UndoRunner(lanes::GraphRunner& runner, const WriteSet& writes, const std::byte* image,
             const pipeline::ImageLayout& layout)
      : ForwardingRunner(runner), writes_(writes), image_(image), layout_(layout) {}

  // From the next node on. `log` has begun, and has room for all that the graph writes. `clock`:
  // what saving takes is measured; null: it is not.
  void begin_saving(UndoLog& log, const Clock* clock) {
    log_ = &log;
    clock_ = clock;
  }
  // What saving took so far, where it was measured.
  Duration took() const { return took_; }

  lanes::NodeOutcome run_node(size_t index) override;

 private:
  void save(std::span<const uint32_t> slots);

  const WriteSet& writes_;
  const std::byte* const image_;
  const pipeline::ImageLayout& layout_;
  UndoLog* log_ = nullptr;
  const Clock* clock_ = nullptr;
  Duration took_;
};

}  // namespace laneway::service
