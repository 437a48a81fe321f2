// Checker: looks at one rule of the core from outside. It is shown every action before and every
// event after it took effect in Observed, and answers with a sentence when the rule is broken.
#pragma once

#include <string>

#include "base/time.h"
#include "lanes/state/action.h"
#include "lanes/state/event.h"
#include "tests/simulation/observed.h"

namespace laneway::simulation {

class Checker {
 public:
  virtual ~Checker() = default;
  // `seen` is the state before the action. Empty: fine.
  virtual std::string action(const Observed& seen, const lanes::Action& action) = 0;
  // `seen` is the state after the event and all its actions. Empty: fine.
  virtual std::string settled(const Observed& seen, const lanes::Event& event) = 0;
};

}  // namespace laneway::simulation
