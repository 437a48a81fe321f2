#include "policies/priority.h"

namespace laneway::policies {

int64_t Priority::rank(TimePoint /*now*/, const View& /*view*/, const JobView& job) const {
  return -int64_t{job.options.priority};
}

}  // namespace laneway::policies
