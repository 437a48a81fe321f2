// Replay: decides when the device's work of an iteration, or of its first part, is recorded
// (Recording, torch_device.h) and launched again. A recording holds addresses and numbers, so it is
// valid for iterations in which all of these are the same: their key. After limits::kReplayAfter
// planned iterations with one key the next one is recorded, and later ones with this key are
// replayed; an iteration with another key runs node by node, and counting begins again. A thread
// records a graph only if it ran it node by node with this key before: libraries keep data per
// thread that they make at the first call of an operator (plans of convolutions), and some of it
// cannot be made while recording. Which thread runs an iteration is chance where several do (a
// lane's own and its client's, in one process), so it need not be the one that ran the last.
//
// It decides only; GraphReplayer acts (adaptor/run/graph_replayer.h). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "memory/planned_tape.h"

namespace laneway::adaptor {

struct ReplayKey {
  size_t end = 0;  // the node before which the recording ends
  std::shared_ptr<const memory::PlannedTape> plan;
  const std::byte* lane = nullptr;  // where the lane's memory begins
  Bytes capacity;                   // its size
  uint64_t lane_number =
      0;  // DeviceLane::number of the lane with the recording's stream and workspaces
  const void* image = nullptr;
  std::vector<uint64_t> numbers;  // the bits of inputs that are numbers, or are used as numbers
  uint64_t state_epoch = 0;       // 0 where no recorded node depends on the state
  friend bool operator==(const ReplayKey&, const ReplayKey&) = default;
};

class ReplayControl {
 public:
  enum class Way : uint8_t { plain, record, replay };

  // Decides how the iteration that begins on this thread runs. `key` is empty when the iteration
  // has no plan, or must not be recorded or replayed.
  Way begin(std::optional<ReplayKey> key);
  // The iteration that begins must run node by node, and says nothing of others.
  Way begin_plainly();
  // The same, unless there is a recording of it.
  Way begin_existing(const std::optional<ReplayKey>& key);
  // The iteration was completed in that way.
  void completed();
  // The iteration was abandoned: a recording that it began does not exist.
  void given_up();
  // The recording was spoilt from outside, and the iteration runs node by node. Returns whether the
  // graph will be recorded again, after as many iterations as at first; false when that has come to
  // nothing limits::kRecordAgain times in a row.
  bool spoilt();
  // The device cannot record this graph: the iteration ran node by node, and so will all later
  // ones.
  void refuse();
  bool refused() const { return refused_; }

 private:
  bool this_thread_ran() const;
  void note_this_thread();

  bool refused_ = false;
  bool counts_ = false;  // this iteration does
  uint32_t spoilt_ = 0;  // recordings that were, since one succeeded
  Way way_ = Way::plain;
  std::optional<ReplayKey> key_;       // the key of the iterations that are counted
  uint32_t completed_ = 0;             // iterations that ran node by node with key_, in a row
  std::vector<uint64_t> ran_;          // the threads that ran any of them, the latest last
  std::optional<ReplayKey> recorded_;  // the key of the recording; none: there is no recording
};

}  // namespace laneway::adaptor
