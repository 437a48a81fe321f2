// The shortest job goes first, by the time that the whole of it takes, what was done included, and
// takes the place of a longer one that runs. Jobs that do not say how long they are come last.
#include <laneway_policy.hpp>

namespace {

constexpr double kLast = 1e18;

class ShortestJob : public laneway::policy::Policy {
 public:
  explicit ShortestJob(const laneway::policy::Options& /*options*/) {}
  laneway::policy::Rank rank(const laneway::policy::Job& job, double /*now*/) override {
    if (!job.total_iterations || job.iteration_s == 0) return kLast;
    return static_cast<double>(*job.total_iterations) * job.iteration_s;
  }
};

}  // namespace

int main() { return laneway::policy::run<ShortestJob>(); }
