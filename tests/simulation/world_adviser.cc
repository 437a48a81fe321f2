// World, part: the adviser of a policy from outside. It is somebody else's program: what it says is
// late, or never comes, or is nonsense; it dies and comes again; and its ranks are drawn, with no
// rule behind them.
#include <limits>

#include "policies/registry.h"
#include "tests/simulation/world.h"
#include "tests/simulation/world_state.h"

namespace laneway::simulation {

using namespace lanes;  // NOLINT: the vocabulary of this file

bool World::is_advised() const { return policies::plugin_of(policy_).has_value(); }

// Another core or policy has no adviser yet. What one before it said may still be on its way.
void World::start_adviser() {
  const uint64_t epoch = ++adviser_epoch_;
  if (!is_advised()) return;
  at(delay(), [this, epoch] {
    if (epoch != adviser_epoch_) return;
    ++outcome_.counts["advisers came"];
    send(AdviserChanged{AdviserNews::came});
  });
}

void World::lose_adviser() {
  if (!is_advised()) return;
  ++outcome_.counts["advisers died"];
  ++adviser_epoch_;
  send(AdviserChanged{AdviserNews::gone});
  start_adviser();
}

void World::tell(const TellPolicy& news) {
  if (news.gone) return;
  ++outcome_.counts["told"];
  if (!random_.chance(0.9)) return;  // it says nothing of this job
  const Advice advice = draw_advice(news.facts);
  const uint64_t epoch = adviser_epoch_;
  at(delay() * random_.between(1, 8), [this, epoch, advice] {
    if (epoch != adviser_epoch_) return;
    ++outcome_.counts["advised"];
    send(advice);
  });
  if (random_.chance(0.005)) {
    at(delay(), [this, epoch] {
      if (epoch == adviser_epoch_) send(AdviserChanged{AdviserNews::asks});
    });
  }
}

Advice World::draw_advice(const JobFacts& facts) {
  Advice advice{.job = facts.job, .advice = {}};
  policies::JobAdvice& its = advice.advice;
  its.value = static_cast<double>(random_.between(-3, 3));
  its.busy = facts.busy;
  its.waiting = facts.waiting;
  if (random_.chance(0.3)) its.per_busy_s = static_cast<double>(random_.between(-900, 900));
  if (random_.chance(0.3)) its.per_wait_s = static_cast<double>(random_.between(-900, 900));
  if (random_.chance(0.3)) its.slice = microseconds(random_.between(1, 2000));
  if (!random_.chance(0.05)) return advice;
  ++outcome_.counts["nonsense advice"];
  switch (random_.below(4)) {
    case 0: its.value = std::numeric_limits<double>::quiet_NaN(); break;
    case 1: its.per_busy_s = std::numeric_limits<double>::infinity(); break;
    case 2: its.slice = Duration(INT64_MIN); break;
    default: advice.job = JobId(random_.below(90)); break;
  }
  return advice;
}

}  // namespace laneway::simulation
