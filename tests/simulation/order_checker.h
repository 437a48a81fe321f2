// OrderChecker: the policy's promise, computed again from outside. fifo: admission by arrival, head
// of line; in a lane the earliest of the most urgent that can run. srtf: the shortest remaining
// time by own sums. Both: nobody is refused who could fit an empty pool, and (fifo) the head of the
// queue never waits while there is obviously room for it in a new lane.
#pragma once

#include <string>

#include "tests/simulation/checker.h"

namespace laneway::simulation {

enum class Order : uint8_t { fifo, srtf, none };

class OrderChecker final : public Checker {
 public:
  // `in_order`: turns are granted in one order, because there is one numeric context, and nobody
  // waits long enough behind more urgent ones to overtake them.
  OrderChecker(Order order, bool in_order, uint32_t max_lanes, uint32_t max_jobs)
      : order_(order), in_order_(in_order), max_lanes_(max_lanes), max_jobs_(max_jobs) {}

  std::string action(const Observed& seen, const lanes::Action& action) override;
  std::string settled(const Observed& seen, const lanes::Event& event) override;

 private:
  // Whether `a` goes before `b`: at admission, and in a lane.
  bool before(const SeenJob& a, const SeenJob& b, bool admission) const;
  // No other policy than the default says who interrupts whom.
  static bool urgency_is_priority(const Observed& seen, const lanes::Turn& turn);
  std::string check_refusal(const Observed& seen, const lanes::RefuseJob& refuse) const;

  Order order_;
  bool in_order_;
  uint32_t max_lanes_;
  uint32_t max_jobs_;
};

}  // namespace laneway::simulation
