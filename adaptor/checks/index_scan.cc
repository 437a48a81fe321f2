#include "adaptor/checks/index_scan.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace laneway::adaptor {
namespace {

// The client's bytes need not be aligned.
template <class Integer>
int64_t load(const std::byte* at) {
  Integer value;
  std::memcpy(&value, at, sizeof(value));
  return static_cast<int64_t>(value);
}

struct Bounds {
  uint64_t low = 0;
  uint64_t count = 0;
  uint64_t also = 0;

  bool outside(int64_t value) const {
    const auto bits = static_cast<uint64_t>(value);
    return bool(int{bits - low >= count} & int{bits != also});
  }
};

// Whether any of `count` integers, `step` bytes apart, lies outside.
template <class Integer>
bool any_outside(const std::byte* at, int64_t count, int64_t step, const Bounds& bounds) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i) found |= bounds.outside(load<Integer>(at + i * step));
  return found;
}

}  // namespace

bool is_index_dtype(lanes::DType dtype) {
  return dtype >= lanes::DType::uint8 && dtype <= lanes::DType::int64;
}

IndexElements::IndexElements(lanes::DType dtype, int64_t offset, const std::vector<int64_t>& sizes,
                             const std::vector<int64_t>& strides)
    : dtype_(dtype), offset_(offset) {
  std::vector<Dimension> all;
  for (size_t d = 0; d < sizes.size(); ++d) {
    empty_ = empty_ || sizes[d] == 0;
    if (sizes[d] > 1 && strides[d] != 0) all.push_back({sizes[d], strides[d]});
  }
  if (empty_) {
    offset_ = 0;
    return;
  }
  std::sort(all.begin(), all.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  for (const Dimension& next : all) {
    if (!outer_.empty() && outer_.back().stride == next.stride * next.size) {
      outer_.back() = {outer_.back().size * next.size, next.stride};
    } else {
      outer_.push_back(next);
    }
  }
  if (outer_.empty()) return;
  inner_ = outer_.back();
  outer_.pop_back();
}

template <class Integer>
std::optional<IndexElements::Outside> IndexElements::scan(const void* base,
                                                          const IndexRange& range) const {
  // A number that is inside anyway stands for "no other"; of an empty range there is none, but
  // there `also` decides alone.
  const int64_t also = range.also.value_or(range.low);
  const Bounds bounds{static_cast<uint64_t>(range.low), range.count, static_cast<uint64_t>(also)};
  const bool none = range.count == 0 && !range.also;
  const auto* bytes = static_cast<const std::byte*>(base);
  const auto element = static_cast<int64_t>(sizeof(Integer));
  std::vector<int64_t> at(outer_.size(), 0);
  for (int64_t start = offset_;;) {
    if (none || any_outside<Integer>(bytes + start * element, inner_.size, inner_.stride * element,
                                     bounds)) {
      for (int64_t i = 0; i < inner_.size; ++i) {
        const int64_t place = start + i * inner_.stride;
        const int64_t value = load<Integer>(bytes + place * element);
        if (none || bounds.outside(value)) return Outside{value, place};
      }
    }
    size_t d = outer_.size();
    while (d > 0 && at[d - 1] + 1 == outer_[d - 1].size) {
      start -= at[d - 1] * outer_[d - 1].stride;
      at[--d] = 0;
    }
    if (d == 0) return std::nullopt;
    ++at[d - 1];
    start += outer_[d - 1].stride;
  }
}

std::optional<IndexElements::Outside> IndexElements::first_outside(const void* base,
                                                                   const IndexRange& range) const {
  if (empty_) return std::nullopt;
  switch (dtype_) {
    case lanes::DType::uint8: return scan<uint8_t>(base, range);
    case lanes::DType::int8: return scan<int8_t>(base, range);
    case lanes::DType::int16: return scan<int16_t>(base, range);
    case lanes::DType::int32: return scan<int32_t>(base, range);
    case lanes::DType::int64: return scan<int64_t>(base, range);
    default: break;
  }
  LW_CHECK(false, "indices are integers");
  return std::nullopt;
}

}  // namespace laneway::adaptor
