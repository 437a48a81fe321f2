// Work: one thing that a job has queued: an iteration, or an ordered access to its state. Made by
// the client's thread, done by the lane's (or by the client's own, when the lane is idle), waited
// for by any. Thread-safe where it says so; the rest belongs to whoever holds the work: the maker
// until it is queued, then the lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "lanes/graph/graph.h"
#include "lanes/graph_runner.h"
#include "service/worker/worker_graph.h"

namespace laneway::service {

// Called with the image's bytes where they are now, laid out as the job's layout says.
using StateAccess = std::function<Status(std::byte* image)>;

// Longer limits of waits are none.
inline constexpr Duration kLongestWait = seconds(365 * 86'400);

class Work {
 public:
  // An iteration of `graph`, which is kept until the work is complete; the inputs' bytes are
  // copied.
  Work(GraphHandle graph, std::span<const lanes::InputView> inputs);
  // An access to the job's state; whatever the function uses must live until the work is done.
  explicit Work(StateAccess access) : access_(std::move(access)) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  bool is_iteration() const { return !access_; }
  const StateAccess& access() const { return access_; }
  // Until the work is complete.
  const GraphHandle& graph() const { return graph_; }
  std::span<const lanes::InputView> inputs() const { return inputs_; }
  std::span<const lanes::OutputView> outputs() const { return outputs_; }

  // Thread-safe. Only the first call counts.
  void complete(Status status) LW_EXCLUDES(mutex_);
  // Thread-safe. Nothing when `timeout` passed (negative: no limit; zero: only look).
  std::optional<Status> wait(Duration timeout) LW_EXCLUDES(mutex_);
  // After it completed well: copies outputs to where the client wants them. invalid_argument when
  // their number or sizes differ.
  Status copy_outputs(std::span<const lanes::OutputView> to) const;

 private:
  GraphHandle graph_;
  StateAccess access_;
  std::vector<std::byte> bytes_;  // inputs and outputs, one behind the other
  std::vector<lanes::InputView> inputs_;
  std::vector<lanes::OutputView> outputs_;

  Mutex mutex_;
  CondVar done_;
  std::optional<Status> status_ LW_GUARDED_BY(mutex_);
};

// Bytes of an output as the client sees it: contiguous; 8 for a number.
uint64_t output_bytes(const lanes::Graph& graph, lanes::ValueIndex value);

}  // namespace laneway::service
