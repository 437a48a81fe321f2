#include "policies/transfer_rates.h"

#include <algorithm>

namespace laneway::policies {
namespace {

// Longer than any copy takes; sums of two stay far from overflow.
constexpr int64_t kLongestNs = INT64_MAX / 64;

}  // namespace

void TransferRates::learn(Way way, Bytes bytes, Duration took) {
  if (bytes <= Bytes() || took < Duration()) return;
  Sum& sum = sums_[static_cast<size_t>(way)];
  sum.bytes = sum.bytes / 4 + std::min(bytes.count(), INT64_MAX / 2);
  sum.ns = sum.ns / 4 + std::min(took.ns(), kLongestNs);
}

Duration TransferRates::time(Way way, Bytes bytes) const {
  const Sum& sum = sums_[static_cast<size_t>(way)];
  const double ns = static_cast<double>(std::max(bytes, Bytes()).count()) /
                    static_cast<double>(sum.bytes) * static_cast<double>(sum.ns);
  return Duration(static_cast<int64_t>(std::min(ns, static_cast<double>(kLongestNs))));
}

}  // namespace laneway::policies
