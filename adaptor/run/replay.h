// Replay: when the device's work of an iteration, or of its first part, is written down (Recording,
// torch_device.h) and run again at once. What was written down holds addresses and numbers, so it
// stands for iterations in which all of these are the same: their key. After limits::kReplayAfter
// planned iterations with one key the next one is recorded, and those that follow with it are
// replayed; one with another key runs node by node, and counting begins again. A thread records
// only what it was the last to run node by node: libraries keep for each thread what they make for
// an operator when they first meet it (plans of convolutions), and some of that cannot be made
// while recording.
//
// Decides only; the runner acts (adaptor/run/torch_graph_runner_replay.cc). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "memory/planned_tape.h"

namespace laneway::adaptor {

struct ReplayKey {
  size_t end = 0;  // the node before which it ends
  std::shared_ptr<const memory::PlannedTape> plan;
  const std::byte* lane = nullptr;  // where its memory begins
  uint64_t lane_number = 0;         // whose stream and workspaces it has: DeviceLane::number
  const void* image = nullptr;
  std::vector<uint64_t> numbers;  // the bits of inputs that are numbers, or are taken as such
  uint64_t state_epoch = 0;       // 0 where nothing depends on it
  friend bool operator==(const ReplayKey&, const ReplayKey&) = default;
};

class ReplayControl {
 public:
  enum class Way : uint8_t { plain, record, replay };

  // How the iteration that begins on this thread is to run; `key` is empty when it has no plan, or
  // is not to be recorded or replayed whatever it has.
  Way begin(std::optional<ReplayKey> key);
  // It was completed in that way.
  void completed();
  // It was given up: what was being recorded is not there.
  void given_up();
  // Its device cannot record this graph: it ran plainly, and so will all that follow.
  void refuse();
  bool refused() const { return refused_; }

 private:
  bool refused_ = false;
  Way way_ = Way::plain;
  std::optional<ReplayKey> key_;       // of the iterations that are counted
  uint32_t completed_ = 0;             // plainly, in a row
  std::thread::id ran_last_;           // the thread of the last of those
  std::optional<ReplayKey> recorded_;  // of what is there to be replayed
};

}  // namespace laneway::adaptor
