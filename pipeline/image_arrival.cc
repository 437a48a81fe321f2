#include "pipeline/image_arrival.h"

#include <algorithm>
#include <utility>

namespace laneway::pipeline {

void ImageArrival::advance(Bytes arrived, std::shared_ptr<memory::Event> there) {
  if (there != nullptr) {
    const MutexLock lock(mutex_);
    coming_.push_back({.bytes = arrived, .there = std::move(there)});
  }
  set(arrived.count());
}

void ImageArrival::finish(bool whole) {
  {
    const MutexLock lock(mutex_);
    coming_.clear();
  }
  set(whole ? kWhole : kLost);
}

ImageArrival::Coming ImageArrival::coming(Bytes bytes) const {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(coming_.begin(), coming_.end(),
                                  [&](const Coming& piece) { return piece.bytes >= bytes; });
  return found != coming_.end() ? *found : Coming{.bytes = bytes, .there = nullptr};
}

}  // namespace laneway::pipeline
