#include "lanes/core/advisory.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "policies/advised.h"

namespace laneway::lanes {
namespace {

// Those that say nothing of a job that a rank could follow from.
template <class What>
constexpr bool kIsNoNews = std::is_same_v<What, Advice> || std::is_same_v<What, ImageSaved> ||
                           std::is_same_v<What, ImageDirty> || std::is_same_v<What, PrefixWanted>;

JobFacts facts_of(TimePoint now, const Job& job) {
  const policies::JobView& view = job.view;
  const bool waits_for_nothing = !view.lane.valid() && !job.queued();
  return {.job = view.id,
          .session = view.session,
          .arrival = view.arrival,
          .offered_at = view.offered_at,
          .options = view.options,
          .state = job.state(),
          .lane = view.lane,
          .iterations = view.iterations,
          .busy = policies::Advised::busy_until(now, view),
          .iteration = view.mean_iteration_time(),
          .remaining = view.remaining().value_or(JobFacts::kUnknown),
          .waiting = waits_for_nothing ? Duration() : policies::Advised::waiting_until(now, view),
          .persistent = view.persistent,
          .ephemeral = view.ephemeral};
}

}  // namespace

void Advisory::came() {
  went();
  is_there_ = all_ = policy_.is_advised();
}

void Advisory::went() {
  is_there_ = all_ = false;
  known_.clear();
}

void Advisory::note(std::span<const Event> events) {
  news_.clear();
  if (!is_there_) return;
  const auto one = [this]<class What>(const What& what) {
    if constexpr (std::is_same_v<What, TurnEnded>) {
      if (const Lane* lane = turns_.lane_of_turn(what.turn)) news_.insert(lane->turn.job);
    } else if constexpr (std::is_same_v<What, WorkerLost> || std::is_same_v<What, WorkerReported>) {
      all_ = true;
    } else if constexpr (requires { what.job; } && !kIsNoNews<What>) {
      news_.insert(what.job);
    }
  };
  for (const Event& event : events) std::visit(one, event);
}

void Advisory::note_actions() {
  const auto one = [this]<class What>(const What& what) {
    if constexpr (std::is_same_v<What, GrantTurn>) {
      news_.insert(what.turn.job);
    } else if constexpr (std::is_same_v<What, AdmitJob> || std::is_same_v<What, ChangeLane> ||
                         std::is_same_v<What, EvictImage> || std::is_same_v<What, DropImage> ||
                         std::is_same_v<What, RefuseJob>) {
      news_.insert(what.job);
    }
  };
  for (const Action& action : core_.actions) std::visit(one, action);
}

void Advisory::tell() {
  if (!is_there_) return;
  note_actions();
  if (std::exchange(all_, false)) {
    news_.insert(known_.begin(), known_.end());
    for (const auto& [id, job] : core_.jobs) news_.insert(id);
  }
  for (const JobId id : news_) tell(id);
}

void Advisory::tell(JobId id) {
  if (const Job* job = core_.find_job(id)) {
    known_.insert(id);
    core_.actions.push_back(TellPolicy{.facts = facts_of(core_.now, *job)});
  } else if (known_.erase(id) > 0) {
    TellPolicy over;
    over.facts.job = id;
    over.gone = true;
    core_.actions.push_back(std::move(over));
  }
}

}  // namespace laneway::lanes
