// The job that came last goes first.
#include <laneway_policy.hpp>

namespace {

class LatestFirst : public laneway::policy::Policy {
 public:
  explicit LatestFirst(const laneway::policy::Options& /*options*/) {}
  laneway::policy::Rank rank(const laneway::policy::Job& job, double /*now*/) override {
    return -static_cast<double>(job.arrival);
  }
};

}  // namespace

int main() { return laneway::policy::run<LatestFirst>(); }
