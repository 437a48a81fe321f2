// Work: one thing that a job has queued: an iteration, or an ordered access to its state. Made by
// the client's thread, done by the lane's (or by the client's own, when the lane is idle), waited
// for by any. A request of another process is a RingWork, which is answered elsewhere. Thread-safe
// where it says so; the rest belongs to whoever holds the work: the maker until it is queued, then
// the lane.
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
#include "lanes/run/graph_runner.h"
#include "pipeline/initial_image.h"
#include "service/worker/run/worker_graph.h"

namespace laneway::service {

// Called with the places of the job's slots.
using StateAccess = std::function<Status(const pipeline::SlotPlaces& places)>;

// Longer limits of waits are none.
inline constexpr Duration kLongestWait = seconds(int64_t{365} * 86'400);

class Work {
 public:
  // An iteration of `graph`, which is kept until the work is complete; the inputs' bytes are
  // copied.
  Work(GraphHandle graph, std::span<const lanes::InputView> inputs);
  // An access to the job's state; whatever the function uses must live until the work is done.
  explicit Work(StateAccess access, bool writes = false)
      : access_(std::move(access)), writes_(writes) {}
  virtual ~Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Before it runs, on the thread that will run it; again when it did not fit its lane. A failure
  // is its answer, and it is not run.
  virtual Status prepare() { return {}; }
  virtual bool is_iteration() const { return !access_; }
  // Whether completing it uses the job: then it is completed before the job may be somebody else's.
  virtual bool uses_job() const { return false; }
  // Whether its iteration is written down. Then enter_commit comes before it writes to the job's
  // state, and when all before it are complete: the journal knows of one request at a time.
  virtual bool is_journalled() const { return false; }
  virtual void enter_commit() {}
  // Its nodes are enqueued on a device and the next iteration may begin; it is completed when it
  // has retired.
  virtual void enqueued() {}
  const StateAccess& access() const { return access_; }
  // Threads that the work computes with; an access to the state needs one.
  uint32_t threads() const;
  // Whether the access changes the state.
  virtual bool writes_state() const { return writes_; }
  // Slots that it writes although its client may be gone when it has to be written again.
  virtual std::vector<uint32_t> slots_at_risk() const { return {}; }
  // Until the work is complete.
  const GraphHandle& graph() const { return graph_; }
  // How often its iteration was given up for a more urgent job. Belongs to the lane.
  uint32_t abandons() const { return abandons_; }
  void abandoned() { ++abandons_; }
  std::span<const lanes::InputView> inputs() const { return inputs_; }
  std::span<const lanes::OutputView> outputs() const { return outputs_; }

  // Thread-safe. Only the first call counts. `took`: an iteration's time; `spoiled`: it left the
  // job's state partly written, or its lane, so the job ends.
  virtual void complete(Status status, Duration took = {}, bool spoiled = false)
      LW_EXCLUDES(mutex_);
  // Thread-safe. Nothing when `timeout` passed (negative: no limit; zero: only look).
  std::optional<Status> wait(Duration timeout) LW_EXCLUDES(mutex_);
  // After it completed well: copies outputs to where the client wants them. invalid_argument when
  // their number or sizes differ.
  Status copy_outputs(std::span<const lanes::OutputView> to) const;

 protected:
  // What the other two constructors do is left to prepare.
  Work() = default;

  GraphHandle graph_;
  StateAccess access_;
  bool writes_ = false;
  std::vector<std::byte> bytes_;  // inputs and outputs, one behind the other
  std::vector<lanes::InputView> inputs_;
  std::vector<lanes::OutputView> outputs_;
  uint32_t abandons_ = 0;

 private:
  Mutex mutex_;
  CondVar done_;
  std::optional<Status> status_ LW_GUARDED_BY(mutex_);
};

// Bytes of an output as the client sees it: contiguous; 8 for a number.
uint64_t output_bytes(const lanes::Graph& graph, lanes::ValueIndex value);

}  // namespace laneway::service
