// Numbers rounded to 32 bits, so that their order stays and that most of many are passed over
// several at a time, by what the compiler makes of plain loops.
#pragma once

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

// Calls visit(place) for each key that is at least `least`, which visit may raise, by place.
template <class Visit>
void visit_from(const std::vector<int32_t>& keys, const int32_t& least, const Visit& visit) {
  constexpr size_t kBlock = 16;
  const int32_t* const key = keys.data();
  size_t place = 0;
  for (; place + kBlock <= keys.size(); place += kBlock) {
    int32_t below = -1;  // all of them
    for (size_t i = 0; i < kBlock; ++i) below &= key[place + i] < least ? -1 : 0;
    if (below != 0) continue;
    for (size_t i = place; i < place + kBlock; ++i) {
      if (key[i] >= least) visit(i);
    }
  }
  for (; place < keys.size(); ++place) {
    if (key[place] >= least) visit(place);
  }
}

}  // namespace laneway::lanes
