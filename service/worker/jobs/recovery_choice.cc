#include "service/worker/jobs/recovery_choice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

namespace laneway::service {
namespace {

constexpr Duration kShortIteration = microseconds(200);
constexpr Duration kShortBudget = microseconds(6);
constexpr int64_t kBudgetPercent = 3;
// A successor runs at most so many iterations again, however short they are.
constexpr int64_t kLongestInterval = 4'096;

// Of what undo costs; for less nothing needs to be run again.
constexpr double kClearly = 0.75;

// A pause is longer by half of this, in the mean.
constexpr Duration kUnnoticedRedo = milliseconds(100);
// What is then paid, of the aim: a fourth.
constexpr int64_t kCheaper = 4;
// A pause that is longer than this is paid for with more of the budget.
constexpr Duration kLongRedo = seconds(2);

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

Duration with_after_effects(Duration copies) {
  return Duration(copies.ns() * kCopiesCountPercent / 100);
}

// The smallest interval at which a snapshot costs an iteration no more than that.
int64_t interval_within(Duration snapshot, int64_t ns) {
  return ns > 0 ? divide_up(snapshot.ns(), ns) : kLongestInterval;
}

// What is aimed at, of the budget.
Duration aim_for(Duration iteration) { return Duration(recovery_budget(iteration).ns() * 2 / 3); }

// The positive number that is all of `text` behind `prefix`.
std::optional<uint64_t> number_behind(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return {};
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data() + prefix.size(), end, number);
  if (error != std::errc() || after != end || number == 0) return {};
  return number;
}

double share_of(Duration cost, Duration iteration) {
  if (iteration <= Duration()) return 0;
  return static_cast<double>(cost.ns()) / static_cast<double>(iteration.ns());
}

}  // namespace

const char* recovery_method_name(RecoveryMethod method) {
  switch (method) {
    case RecoveryMethod::none: return "none";
    case RecoveryMethod::undo: return "undo";
    case RecoveryMethod::snapshot: return "snapshot";
  }
  return "?";
}

Duration recovery_budget(Duration iteration) {
  if (iteration < kShortIteration) return kShortBudget;
  return Duration(iteration.ns() * kBudgetPercent / 100);
}

RecoveryChoice choose_interval(const RecoveryCosts& costs) {
  const Duration snapshot = with_after_effects(costs.snapshot);
  const Duration inputs = with_after_effects(costs.inputs);
  const int64_t left = (aim_for(costs.iteration) - inputs).ns();
  int64_t interval = interval_within(snapshot, left);
  if (costs.iteration > Duration()) {
    const int64_t unnoticed = kUnnoticedRedo.ns() / costs.iteration.ns();
    const int64_t cheap = interval_within(snapshot * kCheaper, left);
    interval = std::max(interval, std::min(cheap, unnoticed));
    const int64_t at_most = (recovery_budget(costs.iteration) - inputs).ns();
    const int64_t longest = kLongRedo.ns() / costs.iteration.ns();
    interval = std::min(interval, std::max(interval_within(snapshot, at_most), longest));
  }
  interval = std::clamp<int64_t>(interval, 1, kLongestInterval);
  const Duration each = inputs + Duration(snapshot.ns() / interval);
  return {.method = RecoveryMethod::snapshot,
          .interval = static_cast<uint64_t>(interval),
          .share = share_of(each, costs.iteration),
          .redo = costs.iteration * interval};
}

RecoveryChoice undo_at(const RecoveryCosts& costs) {
  return {.method = RecoveryMethod::undo,
          .interval = 1,
          .share = share_of(with_after_effects(costs.undo), costs.iteration),
          .redo = {}};
}

RecoveryChoice choose_recovery(const RecoveryCosts& costs) {
  const RecoveryChoice undo = undo_at(costs);
  if (with_after_effects(costs.undo) <= aim_for(costs.iteration)) return undo;
  const RecoveryChoice snapshot = choose_interval(costs);
  return snapshot.share < kClearly * undo.share ? snapshot : undo;
}

Result<std::optional<WantedRecovery>> parse_recovery(const std::string& text) {
  if (text.empty()) return std::optional<WantedRecovery>();
  if (text == "undo") return std::optional(WantedRecovery{});
  if (const auto interval = number_behind("snapshot:", text)) {
    return std::optional(WantedRecovery{.method = RecoveryMethod::snapshot, .interval = *interval});
  }
  if (const size_t colon = text.rfind(':'); text.starts_with("rotate:")) {
    const auto block = number_behind("rotate:", std::string_view(text).substr(0, colon));
    const auto interval = number_behind(":", std::string_view(text).substr(colon));
    if (block && interval) {
      return std::optional(
          WantedRecovery{.method = RecoveryMethod::none, .interval = *interval, .block = *block});
    }
  }
  return Error{
      ErrorCode::invalid_argument,
      "recovery '" + text + "': use 'undo', 'snapshot:INTERVAL' or 'rotate:BLOCK:INTERVAL'"};
}

RecoveryMethod rotated_method(uint64_t iteration, uint64_t block) {
  constexpr std::array kRound = {RecoveryMethod::none,     RecoveryMethod::undo,
                                 RecoveryMethod::snapshot, RecoveryMethod::snapshot,
                                 RecoveryMethod::undo,     RecoveryMethod::none};
  return kRound[iteration / block % kRound.size()];
}

}  // namespace laneway::service
