// index_scan: finds integers outside of a range among the elements of a tensor in plain memory.
// Made for indices that an iteration is about to use: one pass without a branch per element, and a
// second pass, which finds the element, only when the first has found a fault. Pure functions; no
// torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lanes/graph/graph.h"

namespace laneway::adaptor {

// The integers low, low + 1, … low + count - 1, and `also`.
struct IndexRange {
  int64_t low = 0;
  uint64_t count = 0;
  std::optional<int64_t> also;  // an ignored label
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// A set of elements of a storage: `offset` and strides in elements of `dtype`. Two sets are equal
// when they have the same elements, in any order.
class IndexElements {
 public:
  // Requires: no size and no stride is negative.
  IndexElements(lanes::DType dtype, int64_t offset, const std::vector<int64_t>& sizes,
                const std::vector<int64_t>& strides);

  lanes::DType dtype() const { return dtype_; }
  int64_t offset() const { return offset_; }

  // The first element in memory outside of `range`: its value, and its place in elements from
  // `base`, the storage's start. Nothing when all elements are inside. Requires: the dtype is an
  // integer's.
  struct Outside {
    int64_t value = 0;
    int64_t place = 0;
  };
  std::optional<Outside> first_outside(const void* base, const IndexRange& range) const;

  friend bool operator==(const IndexElements&, const IndexElements&) = default;

 private:
  struct Dimension {
    int64_t size = 1;
    int64_t stride = 1;
    friend bool operator==(const Dimension&, const Dimension&) = default;
  };

  template <class Integer>
  std::optional<Outside> scan(const void* base, const IndexRange& range) const;

  lanes::DType dtype_;
  int64_t offset_;
  bool empty_ = false;
  std::vector<Dimension> outer_;  // largest stride first; adjacent dimensions are merged
  Dimension inner_;
};

// Whether `dtype` is an integer type (booleans are masks, not indices).
bool is_index_dtype(lanes::DType dtype);

}  // namespace laneway::adaptor
