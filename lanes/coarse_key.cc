#include "lanes/coarse_key.h"

namespace laneway::lanes {

void CoarseKeys::insert(size_t place) {
  resize(size_ + 1);
  const auto at = keys_.begin() + static_cast<std::ptrdiff_t>(place);
  std::move_backward(at, keys_.begin() + static_cast<std::ptrdiff_t>(size_) - 1,
                     keys_.begin() + static_cast<std::ptrdiff_t>(size_));
  *at = kNone;
  for (size_t block = place / kBlock; block * kBlock < size_; ++block) find_most(block);
}

void CoarseKeys::erase(size_t place) {
  const auto at = keys_.begin() + static_cast<std::ptrdiff_t>(place);
  std::move(at + 1, keys_.begin() + static_cast<std::ptrdiff_t>(size_), at);
  keys_[size_ - 1] = kNone;
  for (size_t block = place / kBlock; block * kBlock < size_; ++block) find_most(block);
  resize(size_ - 1);
}

void CoarseKeys::find_most(size_t block) {
  const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
  most_[block] = *std::max_element(first, first + kBlock);
}

void CoarseKeys::resize(size_t count) {
  size_ = count;
  const auto whole = [](size_t places) { return (places + kBlock - 1) / kBlock * kBlock; };
  keys_.resize(whole(size_), kNone);
  most_.resize(whole(keys_.size() / kBlock), kNone);
}

}  // namespace laneway::lanes
