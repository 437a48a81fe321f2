#include "bench/core_load.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

#include "base/bytes.h"
#include "base/limits.h"

namespace laneway::bench {
namespace {

constexpr uint64_t kQueued = 16;              // iterations, of a client when its turn begins
constexpr Duration kSoon = microseconds(20);  // a message, and whoever answers it
// Never reached; and of so many iterations, a second long each, the policies still know the sum.
constexpr uint64_t kEndless = 1'000'000;
constexpr double kPauses = 0.3;     // of the turns leave nothing queued
constexpr double kCancels = 0.005;  // of the turns are a job's last because somebody ends it

}  // namespace

CoreLoad::CoreLoad(const LoadShape& shape)
    : shape_(shape), random_(shape.seed), turns_(limits::kMaxLanes + 1) {
  for (uint32_t i = 0; i < shape.jobs; ++i) add_client();
}

void CoreLoad::add(Duration after, Kind kind, uint64_t id, uint64_t lane) {
  queue_.push({(now_ + after).ns(), ++order_, kind, id, lane});
}

void CoreLoad::add_client() {
  Client made;
  if (shape_.arrivals) {
    made.iteration_ns = random_.between(200'000, 20'000'000);
    made.total = static_cast<uint64_t>(random_.between(20, 2'000));
  } else {
    made.iteration_ns = random_.between(1'000'000, 1'100'000);
    made.total = kEndless;
  }
  made.left = made.total;
  clients_.push_back(made);
  add(kSoon, Kind::offer, clients_.size());
}

CoreLoad::Timed CoreLoad::next(TimePoint wakeup) {
  while (is_stale(queue_.top())) queue_.pop();
  const Entry entry = queue_.top();
  if (wakeup <= TimePoint(entry.at_ns)) {
    now_ = std::max(now_, wakeup);
    return {now_, lanes::TimerFired{}};
  }
  queue_.pop();
  now_ = TimePoint(entry.at_ns);
  return {now_, event_of(entry)};
}

// Turns that ended early, work of jobs that are gone.
bool CoreLoad::is_stale(const Entry& entry) const {
  if (entry.kind == Kind::turn_end) return turns_[entry.lane].id != TurnId(entry.id);
  return entry.kind != Kind::offer && clients_[entry.id - 1].leaving;
}

lanes::Event CoreLoad::event_of(const Entry& entry) {
  switch (entry.kind) {
    case Kind::offer: return offer(entry.id);
    case Kind::placed: add(kSoon, Kind::work, entry.id); return lanes::ImagePlaced{JobId(entry.id)};
    case Kind::left: return lanes::ImageLeft{JobId(entry.id)};
    case Kind::work: return lanes::WorkReady{JobId(entry.id)};
    case Kind::turn_end: return end_turn(entry.lane);
    case Kind::leave: break;
  }
  client(entry.id).leaving = true;
  add_client();
  return lanes::JobEnded{JobId(entry.id), client(entry.id).left > 0};
}

lanes::JobOffered CoreLoad::offer(uint64_t job) {
  const Client& made = client(job);
  lanes::JobOffered offered;
  offered.job = JobId(job);
  offered.session = SessionId(1);
  offered.options.name = "job" + std::to_string(job);
  offered.options.total_iterations = made.total;
  offered.iteration_estimate = Duration(made.iteration_ns);
  offered.persistent = shape_.arrivals ? mib(random_.between(10, 500)) : mib(100);
  offered.ephemeral = shape_.arrivals ? mib(random_.between(8, 64)) : mib(32);
  return offered;
}

lanes::TurnEnded CoreLoad::end_turn(uint64_t lane) {
  const OpenTurn turn = turns_[lane];
  turns_[lane] = {};
  Client& runner = client(turn.job);
  const uint64_t done = std::min(turn.iterations, runner.left);
  runner.left -= done;
  lanes::TurnEnded ended;
  ended.turn = turn.id;
  ended.iterations = done;
  ended.busy = Duration(runner.iteration_ns) * static_cast<int64_t>(done);
  ended.more_ready = true;
  if (!shape_.arrivals) {
    runner.iteration_ns += random_.between(5'000, 50'000);
  } else if (runner.left == 0 || random_.chance(kCancels)) {
    ended.more_ready = runner.left > 0;
    if (!runner.leaving) add(kSoon, Kind::leave, turn.job);
  } else if (random_.chance(kPauses)) {
    ended.more_ready = false;
    add(milliseconds(random_.between(1, 100)), Kind::work, turn.job);
  }
  ended.end = ended.more_ready ? lanes::TurnEnd::budget : lanes::TurnEnd::idle;
  return ended;
}

void CoreLoad::carry_out(const std::vector<lanes::Action>& actions) {
  for (const lanes::Action& action : actions) {
    std::visit(
        [this](const auto& asked) {
          using Asked = std::decay_t<decltype(asked)>;
          if constexpr (std::is_same_v<Asked, lanes::PlaceImage> ||
                        std::is_same_v<Asked, lanes::MoveImage>) {
            add(shape_.crowded ? kCopyTime : kSoon, Kind::placed, asked.job.value());
          } else if constexpr (std::is_same_v<Asked, lanes::EvictImage>) {
            add(kCopyTime, Kind::left, asked.job.value());
          } else if constexpr (std::is_same_v<Asked, lanes::GrantTurn>) {
            granted(asked.turn);
          } else if constexpr (std::is_same_v<Asked, lanes::RecallTurn>) {
            recalled(asked);
          }
        },
        action);
  }
}

// The worker ends a bounded turn after its iterations, at the first boundary behind its slice, or
// when it has done what its client had queued; one without bounds it keeps.
void CoreLoad::granted(const lanes::Turn& turn) {
  const lanes::TurnBudget& budget = turn.envelope.budget;
  const Client& runner = client(turn.job.value());
  const auto in_slice =
      static_cast<uint64_t>(budget.slice.ns() / std::max<int64_t>(runner.iteration_ns, 1) + 1);
  const uint64_t most = budget.iterations == 0 ? kQueued : budget.iterations;
  const uint64_t sliced = budget.slice > Duration() ? in_slice : most;
  const uint64_t iterations = std::min({most, sliced, kQueued});
  turns_[turn.lane.value()] = {turn.id, turn.job.value(), iterations};
  if (!budget.is_bound()) return;
  const Duration takes = Duration(runner.iteration_ns) * static_cast<int64_t>(iterations);
  add(takes, Kind::turn_end, turn.id.value(), turn.lane.value());
}

void CoreLoad::recalled(const lanes::RecallTurn& recall) {
  OpenTurn& turn = turns_[recall.lane.value()];
  if (turn.id != recall.turn) return;
  turn.iterations = 1;
  add(kSoon, Kind::turn_end, turn.id.value(), recall.lane.value());
}

}  // namespace laneway::bench
