#include "lanes/state/region_order.h"

#include <cstdint>
#include <numeric>

namespace laneway::lanes {

std::span<const memory::FreeList::Range> RegionOrder::ranges(const std::vector<Lane>& lanes) {
  if (order_.size() != lanes.size()) {
    order_.resize(lanes.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
  }
  ranges_.clear();
  // Insertion sort: one pass over what is sorted already.
  for (size_t i = 0; i < order_.size(); ++i) {
    const size_t lane = order_[i];
    const Region& region = lanes[lane].region;
    const memory::FreeList::Range none{INT64_MAX, 0};
    const memory::FreeList::Range range = region.size > Bytes() ? region.range() : none;
    ranges_.push_back(range);
    size_t place = i;
    for (; place > 0 && ranges_[place - 1].first > range.first; --place) {
      order_[place] = order_[place - 1];
      ranges_[place] = ranges_[place - 1];
    }
    order_[place] = lane;
    ranges_[place] = range;
  }
  while (!ranges_.empty() && ranges_.back().first == INT64_MAX) ranges_.pop_back();
  return ranges_;
}

}  // namespace laneway::lanes
