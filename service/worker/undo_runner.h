// UndoRunner: a GraphRunner that saves the slots which a node is the first to write, before the
// node runs: late, so that their bytes are read right before the node needs them. Put around a
// graph's own runner; it saves nothing before begin_saving. Owns nothing.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "base/time.h"
#include "lanes/run/graph_runner.h"
#include "pipeline/image.h"
#include "service/journal/undo_log.h"
#include "service/worker/write_set.h"

namespace laneway::service {

class UndoRunner final : public lanes::GraphRunner {
 public:
  // All must outlive it. `image` is the job's, in memory that the CPU reaches.
  UndoRunner(lanes::GraphRunner& runner, const WriteSet& writes, const std::byte* image,
             const pipeline::ImageLayout& layout)
      : runner_(runner), writes_(writes), image_(image), layout_(layout) {}

  // From the next node on. `log` has begun, and has room for all that the graph writes. `clock`:
  // what saving takes is measured; null: it is not.
  void begin_saving(UndoLog& log, const Clock* clock) {
    log_ = &log;
    clock_ = clock;
  }
  // What saving took so far, where it was measured.
  Duration took() const { return took_; }

  size_t node_count() const override { return runner_.node_count(); }
  size_t first_write() const override { return runner_.first_write(); }
  Status begin(std::span<const lanes::InputView> inputs) override { return runner_.begin(inputs); }
  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override {
    return runner_.finish(outputs);
  }
  void abandon() override { runner_.abandon(); }
  const Error& last_error() const override { return runner_.last_error(); }

 private:
  void save(std::span<const uint32_t> slots);

  lanes::GraphRunner& runner_;
  const WriteSet& writes_;
  const std::byte* const image_;
  const pipeline::ImageLayout& layout_;
  UndoLog* log_ = nullptr;
  const Clock* clock_ = nullptr;
  Duration took_;
};

}  // namespace laneway::service
