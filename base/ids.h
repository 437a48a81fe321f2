// Strong identifiers. Every id is a positive integer of its own type, so that a job cannot be
// passed where a lane is meant; zero means "none" and is what a default-constructed id holds.
// Value types, freely copied, ordered and hashable; no thread-safety concerns.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace laneway {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }
  constexpr bool valid() const { return value_ != 0; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;

 private:
  uint64_t value_ = 0;
};

using SessionId = Id<struct SessionTag>;
using JobId = Id<struct JobTag>;
using LaneId = Id<struct LaneTag>;
using RegionId = Id<struct RegionTag>;
using ClaimId = Id<struct ClaimTag>;
using TurnId = Id<struct TurnTag>;

// Gives the ids 1, 2, 3, … Not thread-safe; each owner has its own.
template <class IdType>
class IdSource {
 public:
  IdType next() { return IdType(++last_); }
  // From now on every id is greater than `last`, which a predecessor has given already.
  void continue_after(IdType last) { last_ = std::max(last_, last.value()); }

 private:
  uint64_t last_ = 0;
};

}  // namespace laneway

template <class Tag>
struct std::hash<laneway::Id<Tag>> {
  size_t operator()(const laneway::Id<Tag>& id) const noexcept {
    return std::hash<uint64_t>()(id.value());
  }
};
