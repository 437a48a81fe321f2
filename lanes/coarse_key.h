// Numbers rounded to 32 bits, so that their order stays and that most of many are passed over
// several at a time, by what the compiler makes of plain loops.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace laneway::lanes {

// Never less for a greater number: about seven digits of it.
inline int32_t coarse_key(int64_t number) {
  const auto bits = std::bit_cast<int32_t>(static_cast<float>(number));
  return bits >= 0 ? bits : bits ^ INT32_MAX;
}

// Keys by place, of which the great ones are found without a look at most of the others.
class CoarseKeys {
 public:
  // The key of a place that is never visited.
  static constexpr int32_t kNone = INT32_MIN;

  size_t size() const { return size_; }
  int32_t at(size_t place) const { return keys_[place]; }
  // kNone where there is none.
  int32_t greatest() const {
    return most_.empty() ? kNone : *std::max_element(most_.begin(), most_.end());
  }
  void set(size_t place, int32_t key);
  // Puts a place with kNone before this one.
  void insert(size_t place);
  void erase(size_t place);
  // Calls visit(place) for each key that is at least `least`, which visit may raise, by place.
  template <class Visit>
  void visit_from(const int32_t& least, const Visit& visit) const;

 private:
  static constexpr size_t kBlock = 16;
  // Whether all of them are below `least`: sixteen at once.
  static bool all_below(const int32_t* block, int32_t least) {
    int32_t below = -1;
    for (size_t i = 0; i < kBlock; ++i) below &= block[i] < least ? -1 : 0;
    return below != 0;
  }
  void find_most(size_t block);
  // Whole blocks of so many.
  void resize(size_t count);

  size_t size_ = 0;
  std::vector<int32_t> keys_;  // in whole blocks: kNone behind the last place
  std::vector<int32_t> most_;  // of each block; the same
};

inline void CoarseKeys::set(size_t place, int32_t key) {
  const int32_t before = keys_[place];
  keys_[place] = key;
  const size_t block = place / kBlock;
  if (key >= most_[block]) {
    most_[block] = key;
  } else if (before == most_[block]) {
    find_most(block);
  }
}

template <class Visit>
void CoarseKeys::visit_from(const int32_t& least, const Visit& visit) const {
  const int32_t lowest = kNone + 1;
  for (size_t blocks = 0; blocks < most_.size(); blocks += kBlock) {
    if (all_below(&most_[blocks], std::max(least, lowest))) continue;
    for (size_t block = blocks; block < blocks + kBlock; ++block) {
      if (most_[block] < std::max(least, lowest)) continue;
      for (size_t place = block * kBlock; place < (block + 1) * kBlock; ++place) {
        if (keys_[place] >= std::max(least, lowest)) visit(place);
      }
    }
  }
}

}  // namespace laneway::lanes
