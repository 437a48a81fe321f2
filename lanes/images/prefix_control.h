// PrefixControl: beginnings of images that left stay in the pool only as long as nobody else needs
// the room: they are given up on demand, which costs nothing now. Part of the core; not
// thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "base/bytes.h"
#include "lanes/state/core_state.h"

namespace laneway::lanes {

class PrefixControl {
 public:
  // `core` must outlive the object.
  explicit PrefixControl(CoreState& core) : core_(core) {}

  // Whether there is room without those.
  using Suffices = std::function<bool(const std::vector<JobId>& given)>;
  // Gives up prefixes of away jobs, those that ran longest ago first and that of `job` last, until
  // there is room; none when there is room already, or would not be without all of them. Returns
  // whether some were given up.
  bool give_up_for(JobId job, const Suffices& suffices);
  void give_up_all();
  // Those that could be given up, of jobs that are away, by last use. The prefix of one that comes
  // back is in use.
  std::vector<JobId> all() const;

  // How much of the image may stay when it leaves: what the worker wishes, in whole units, and less
  // than all.
  Bytes wanted(const Job& job) const;

 private:
  void give_up(JobId job);

  CoreState& core_;
};

}  // namespace laneway::lanes
