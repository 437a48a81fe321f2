#include "lanes/region_order.h"

#include <cstdint>
#include <numeric>

namespace laneway::lanes {

std::span<const Bytes> RegionOrder::offsets(const std::vector<Lane>& lanes) {
  if (order_.size() != lanes.size()) {
    order_.resize(lanes.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
  }
  const auto offset_of = [&lanes](size_t lane) {
    const Region& region = lanes[lane].region;
    return region.size > Bytes() ? region.offset : Bytes(INT64_MAX);
  };
  offsets_.clear();
  // Insertion sort: one pass over what is sorted already.
  for (size_t i = 0; i < order_.size(); ++i) {
    const size_t lane = order_[i];
    const Bytes offset = offset_of(lane);
    size_t place = i;
    offsets_.push_back(offset);
    for (; place > 0 && offsets_[place - 1] > offset; --place) {
      order_[place] = order_[place - 1];
      offsets_[place] = offsets_[place - 1];
    }
    order_[place] = lane;
    offsets_[place] = offset;
  }
  while (!offsets_.empty() && offsets_.back() == Bytes(INT64_MAX)) offsets_.pop_back();
  return offsets_;
}

}  // namespace laneway::lanes
