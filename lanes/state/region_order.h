// RegionOrder: where the lanes' regions lie, ascending. They hardly ever change places, so the
// order of the last time is nearly that of now. Part of the core; not thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lanes/state/lane.h"
#include "memory/free_list.h"

namespace laneway::lanes {

class RegionOrder {
 public:
  // As the regions are now, those of open lanes. Requires: always the same lanes. Valid until the
  // next call.
  std::span<const memory::FreeList::Range> ranges(const std::vector<Lane>& lanes);

 private:
  std::vector<size_t> order_;  // of lanes: by offset, as of the last time; those without at its end
  std::vector<memory::FreeList::Range> ranges_;
};

}  // namespace laneway::lanes
