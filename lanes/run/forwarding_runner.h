// ForwardingRunner: a GraphRunner around another one that passes every call on. Whoever adds
// something to some calls derives from it and overrides those. Owns nothing.
#pragma once

#include <cstddef>
#include <span>

#include "lanes/run/graph_runner.h"

namespace laneway::lanes {

class ForwardingRunner : public GraphRunner {
 public:
  // `runner` must outlive it.
  explicit ForwardingRunner(GraphRunner& runner) : runner_(runner) {}

  size_t node_count() const override { return runner_.node_count(); }
  size_t first_write() const override { return runner_.first_write(); }
  Status begin(std::span<const InputView> inputs) override { return runner_.begin(inputs); }
  NodeOutcome run_node(size_t index) override { return runner_.run_node(index); }
  Status finish(std::span<const OutputView> outputs) override { return runner_.finish(outputs); }
  void abandon() override { runner_.abandon(); }
  const Error& last_error() const override { return runner_.last_error(); }

 private:
  GraphRunner& runner_;
};

}  // namespace laneway::lanes
