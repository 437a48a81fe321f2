// OrderChecker: the policy's promise without ageing, computed again from outside. fifo: admission
// by arrival, head of line; in a lane the earliest of the most urgent that can run. srtf: the
// shortest remaining time by own sums, newcomers before that. Both: best effort is last in its
// lane, nobody is refused who could fit an empty pool, and (fifo) the head of the queue never waits
// while there is obviously room for it in a new lane.
#pragma once

#include <string>

#include "tests/simulation/checker.h"

namespace laneway::simulation {

enum class Order : uint8_t { fifo, srtf, none };

class OrderChecker final : public Checker {
 public:
  OrderChecker(Order order, bool one_context, uint32_t max_lanes, uint32_t max_jobs)
      : order_(order), one_context_(one_context), max_lanes_(max_lanes), max_jobs_(max_jobs) {}

  std::string action(const Observed& seen, const lanes::Action& action) override;
  std::string settled(const Observed& seen, const lanes::Event& event) override;

 private:
  // Whether `a` goes before `b`: at admission, and in a lane.
  bool before(const SeenJob& a, const SeenJob& b, bool admission) const;
  // No other policy than the default says who interrupts whom.
  static bool urgency_is_priority(const Observed& seen, const lanes::Turn& turn);
  std::string check_refusal(const Observed& seen, const lanes::RefuseJob& refuse) const;

  Order order_;
  bool one_context_;
  uint32_t max_lanes_;
  uint32_t max_jobs_;
};

}  // namespace laneway::simulation
