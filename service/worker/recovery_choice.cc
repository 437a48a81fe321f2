#include "service/worker/recovery_choice.h"

#include <algorithm>
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
// What is then paid, of the budget: a fourth.
constexpr int64_t kCheaper = 4;

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

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
  const int64_t snapshot = costs.snapshot.ns() * kCopiesCount;
  const int64_t left = (recovery_budget(costs.iteration) - costs.inputs).ns();
  int64_t interval = kLongestInterval;
  if (left > 0) interval = divide_up(snapshot, left);
  if (left > 0 && costs.iteration > Duration()) {
    const int64_t unnoticed = kUnnoticedRedo.ns() / costs.iteration.ns();
    interval = std::max(interval, std::min(divide_up(snapshot * kCheaper, left), unnoticed));
  }
  interval = std::clamp<int64_t>(interval, 1, kLongestInterval);
  const Duration each = costs.inputs + Duration(snapshot / interval);
  return {.method = RecoveryMethod::snapshot,
          .interval = static_cast<uint64_t>(interval),
          .share = share_of(each, costs.iteration),
          .redo = costs.iteration * interval};
}

RecoveryChoice undo_at(const RecoveryCosts& costs) {
  return {.method = RecoveryMethod::undo,
          .interval = 1,
          .share = share_of(costs.undo * kCopiesCount, costs.iteration),
          .redo = {}};
}

RecoveryChoice choose_recovery(const RecoveryCosts& costs) {
  const RecoveryChoice undo = undo_at(costs);
  if (costs.undo * kCopiesCount <= recovery_budget(costs.iteration)) return undo;
  const RecoveryChoice snapshot = choose_interval(costs);
  return snapshot.share < kClearly * undo.share ? snapshot : undo;
}

Result<std::optional<WantedRecovery>> parse_recovery(const std::string& text) {
  constexpr std::string_view kSnapshot = "snapshot:";
  if (text.empty()) return std::optional<WantedRecovery>();
  if (text == "undo") return std::optional(WantedRecovery{});
  WantedRecovery wanted{.method = RecoveryMethod::snapshot, .interval = 0};
  if (text.starts_with(kSnapshot)) {
    const char* const end = text.data() + text.size();
    const auto [after, error] =
        std::from_chars(text.data() + kSnapshot.size(), end, wanted.interval);
    if (error != std::errc() || after != end) wanted.interval = 0;
  }
  if (wanted.interval > 0) return std::optional(wanted);
  return Error{ErrorCode::invalid_argument,
               "recovery '" + text + "': use 'undo' or 'snapshot:INTERVAL'"};
}

}  // namespace laneway::service
