// MemoryChecker: after every single action the claims fit the pool, images and regions lie inside
// it and do not overlap, everything is aligned and as large as its owner needs, and a region
// changes only while no turn is open in its lane.
#pragma once

#include <string>

#include "tests/simulation/checker.h"

namespace laneway::simulation {

class MemoryChecker final : public Checker {
 public:
  std::string action(const Observed& seen, const lanes::Action& action) override;
  std::string settled(const Observed& seen, const lanes::Event& event) override;

 private:
  std::string check_state(const Observed& seen) const;
  std::string check_outside(const Observed& seen) const;
};

}  // namespace laneway::simulation
