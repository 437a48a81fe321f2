// SyntheticRunner: a GraphRunner without torch. Each node mixes its index, the input and the random
// state into a running value; nodes from first_write on add that to "persistent" words. It counts
// what it was asked, checks the protocol of graph_runner.h (calls in order, nothing alive after
// finish or abandon), and answers out_of_lane or failed at the node that it is told to. An action
// can be hung on a node, to do something from inside an iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lanes/run/graph_runner.h"

namespace laneway::testing {

class SyntheticRunner final : public lanes::GraphRunner {
 public:
  SyntheticRunner(size_t nodes, size_t first_write) : nodes_(nodes), first_write_(first_write) {}

  // ---- what it does to you ----
  // At this node answers `outcome` instead of running it, this often.
  void inject(size_t node, lanes::NodeOutcome outcome, int times = 1);
  void refuse_begin() { refuse_begin_ = true; }
  void fail_finish() { fail_finish_ = true; }
  // Called before the node runs.
  void at_node(size_t node, std::function<void()> action);

  // ---- what can be looked at ----
  const std::vector<uint64_t>& persistent() const { return persistent_; }
  uint64_t random_state() const { return random_state_; }
  bool alive() const { return alive_; }
  int abandons() const { return abandons_; }
  int finishes() const { return finishes_; }
  // The nodes that ran in this iteration or the last.
  const std::vector<size_t>& trail() const { return trail_; }
  // The first breach of the protocol; empty when there is none.
  const std::string& breach() const { return breach_; }

  // ---- GraphRunner ----
  size_t node_count() const override { return nodes_; }
  size_t first_write() const override { return first_write_; }
  Status begin(std::span<const lanes::InputView> inputs) override;
  lanes::NodeOutcome run_node(size_t index) override;
  Status finish(std::span<const lanes::OutputView> outputs) override;
  void abandon() override;
  const Error& last_error() const override { return error_; }

 private:
  struct Injection {
    size_t node = 0;
    lanes::NodeOutcome outcome = lanes::NodeOutcome::failed;
    int times = 0;
  };
  void expect(bool condition, const char* what);

  size_t nodes_;
  size_t first_write_;
  std::vector<uint64_t> persistent_ = {1, 2, 3};
  uint64_t random_state_ = 42;
  uint64_t saved_random_state_ = 42;
  uint64_t value_ = 0;
  bool alive_ = false;
  size_t next_ = 0;
  int abandons_ = 0;
  int finishes_ = 0;
  std::vector<size_t> trail_;
  std::string breach_;
  std::optional<Injection> injection_;
  std::optional<std::pair<size_t, std::function<void()>>> action_;
  bool refuse_begin_ = false;
  bool fail_finish_ = false;
  Error error_;
};

}  // namespace laneway::testing
