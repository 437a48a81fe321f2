// PolicyNote: what a policy keeps of a job beside what the view says, so that the policy of a core
// that takes over can go on with it. Two numbers; what they mean is the policy's own affair.
#pragma once

#include <cstdint>

namespace laneway::policies {

struct PolicyNote {
  int64_t first = 0;
  int64_t second = 0;

  friend bool operator==(const PolicyNote&, const PolicyNote&) = default;
};

}  // namespace laneway::policies
