// PoolUse: what of the pool images and regions have, followed through the records of a trace. Sums
// of a file that makes no sense wrap around. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "base/bytes.h"
#include "base/ids.h"
#include "service/wire/trace_record.h"

namespace laneway::service {

class PoolUse {
 public:
  // True when a number changed.
  bool on_entry(const wire::trace::Entry& entry);

  uint64_t persistent() const { return persistent_; }
  uint64_t regions() const { return in_regions_; }
  // Of neither; nothing while the pool's size is unknown.
  uint64_t free() const;

 private:
  // Takes the place of what the same one had; of no bytes: it is gone.
  template <class Key>
  static void set(std::map<Key, uint64_t>& sizes, uint64_t& sum, Key key, Bytes size);
  void on_action(const lanes::Action& action);
  void on_report(const lanes::WorkerReport& report);

  std::map<JobId, uint64_t> images_;
  std::map<JobId, uint64_t> moves_;  // the ranges that images move to
  std::map<RegionId, uint64_t> regions_;
  uint64_t pool_ = 0;
  uint64_t persistent_ = 0;
  uint64_t in_regions_ = 0;
};

}  // namespace laneway::service
