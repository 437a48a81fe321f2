// World, part: whose rule the core follows. A quarter of the seeds have a policy that answers
// nonsense, a quarter each srtf and fifo without ageing, whose order is checked; the others any
// policy of the registry with drawn options, changed while jobs run, whose bound on waiting is
// checked.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "tests/simulation/nonsense_policy.h"
#include "tests/simulation/waiting_checker.h"
#include "tests/simulation/world.h"

namespace laneway::simulation {
namespace {

constexpr const char* kNonsense = "nonsense";

// What else a policy may be told; one that is not here is drawn without.
const std::vector<std::pair<std::string, std::vector<std::string>>> kOptions = {
    {"edf", {":oracle_error=2"}},
    {"fair", {":quantum_s=0.0005", ":quantum_s=0.003"}},
    {"fifo", {":by=request", ":admit=fit", ":admit=fit:by=request"}},
    {"las", {":threshold_s=0.0001", ":threshold_s=0.002"}},
    {"sjf", {":oracle_error=0.5:seed=7"}},
    {"srtf", {":oracle_error=0.5", ":oracle_error=20:seed=3"}},
};

}  // namespace

Order World::draw_order() {
  switch (seed_ % 4) {
    case 1: return Order::srtf;
    case 2: return Order::fifo;
    default: return Order::none;
  }
}

std::string World::draw_policy() {
  const std::string sharing = random_.chance(0.8) ? ":share=yes" : ":share=no";
  age_ = Duration();
  switch (seed_ % 4) {
    case 0:
      // It may let nobody leave, and then nobody comes in.
      return kind_ == Kind::exchange ? "sjf:age=off" + sharing : kNonsense;
    case 1: return "srtf:age=off";
    case 2: return "fifo:age=off" + sharing;
    default: break;
  }
  std::vector<std::string> names = policies::policy_names();
  names.insert(names.end(), 3, "./advised");  // from outside
  std::string text = names[random_.below(names.size())];
  ++outcome_.counts["policy " + text];
  for (const auto& [name, options] : kOptions) {
    if (name == text && random_.chance(0.5)) text += options[random_.below(options.size())];
  }
  if (random_.chance(0.2)) return text + ":age=off" + sharing;
  const int64_t age_ms = random_.between(1, 9);
  age_ = milliseconds(age_ms);
  text += ":age_s=0.00" + std::to_string(age_ms);
  if (random_.chance(0.5)) text += ":reserve_s=0.00" + std::to_string(random_.between(1, 9));
  return text + sharing;
}

std::unique_ptr<policies::Policy> World::make_policy() const {
  if (policy_ == kNonsense) return std::make_unique<NonsensePolicy>(seed_ + broker_epoch_);
  return policies::make_policy(policy_).value();
}

void World::change_policy() {
  if (seed_ % 4 != 3) return;
  ++outcome_.counts["policies changed"];
  policy_ = draw_policy();
  scheduler_->set_policy(make_policy());
  start_adviser();
  watch_waits();
  send(lanes::TimerFired{});
}

void World::watch_waits() {
  const auto policy = make_policy();
  keeps_apart_ = config_.lane_limit.measured && policy->shares();
  // Numeric contexts take turns by a rule of the core's.
  waiting_ = nullptr;
  if (age_ == Duration() || !one_context_) return;
  // An iteration, the shortest slice, a turn that is kept open with nothing to run, late reports,
  // bytes that are on the way.
  const Duration iteration = microseconds(static_cast<int64_t>(2020 * slows_by_));
  Duration longest = iteration + milliseconds(1) + config_.patience +
                     microseconds(4 * max_delay_us_) + reads_every_ * 4;
  // Held for more urgent ones of other lanes (four times the iteration), and given up twice for
  // what such a one needs of the pool.
  const Duration held = iteration * 4;
  if (keeps_apart_) {
    // A turn may wait for one of each other lane, of the core's own budget.
    const auto iterations = static_cast<int64_t>(config_.budget.iterations);
    const Duration turn = std::max(iteration * iterations, config_.budget.slice + iteration);
    longest = longest + (longest + turn) * (config_.max_lanes - 1);
  }
  waiting_ = std::make_unique<WaitingChecker>(age_, (longest + held) * 3);
}

}  // namespace laneway::simulation
