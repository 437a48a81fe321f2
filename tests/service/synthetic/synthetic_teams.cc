#include "adaptor/scope/thread_count.h"

namespace laneway::adaptor {

// The synthetic device computes without OpenMP, so no thread keeps a team.
void end_thread_team() {}

}  // namespace laneway::adaptor
