// DisjointSets: the numbers below a count, each in a set of its own at first; two sets can be
// joined, never parted (Tarjan, Efficiency of a Good But Not Linear Set Union Algorithm, 1975; with
// halved paths).
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace laneway {

class DisjointSets {
 public:
  explicit DisjointSets(uint32_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0U);
  }

  // The member that stands for the set of `member`, the same for all of them until the next join.
  uint32_t find(uint32_t member) {
    while (parent_[member] != member) member = parent_[member] = parent_[parent_[member]];
    return member;
  }

  void join(uint32_t a, uint32_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<uint32_t> parent_;
};

}  // namespace laneway
