#include "simulator/pair_speeds.h"

#include <cmath>
#include <memory>
#include <span>
#include <tuple>

#include "base/check.h"

namespace laneway::simulator {
namespace {

// Two that do not run beside each other take turns.
constexpr double kInTurns = 0.5;

Result<double> speed_of(const Table& table, size_t row, const char* column) {
  const auto speed = table.real(row, column, -1);
  if (speed && std::isfinite(speed.value()) && speed.value() >= 0) return speed.value();
  if (!speed) return speed.error();
  return table.wrong(row, column,
                     "'" + table.text(row, column) +
                         "' is no speed: give a number from 0, such as 0.75 of that alone");
}

}  // namespace

Result<PairSpeeds> PairSpeeds::of(const Table& table) {
  if (const Status status = table.require({"job_a", "job_b", "norm_a", "norm_b"}); !status) {
    return status.error();
  }
  PairSpeeds pairs;
  pairs.name_ = table.name();
  for (size_t row = 0; row < table.rows(); ++row) {
    if (const Status status = pairs.add(table, row); !status) return status.error();
  }
  return pairs;
}

Status PairSpeeds::add(const Table& table, size_t row) {
  const std::string& one = table.text(row, "job_a");
  const std::string& other = table.text(row, "job_b");
  const auto of_one = speed_of(table, row, "norm_a");
  if (!of_one) return of_one.error();
  const auto of_other = speed_of(table, row, "norm_b");
  if (!of_other) return of_other.error();
  Pair speeds = {of_one.value(), of_other.value()};
  if ((speeds.first == 0) != (speeds.second == 0)) {
    return table.wrong(row, "norm_b",
                       "one of the two gets on and the other one never would: give both speeds "
                       "above 0, or 0 for both where they do not run beside each other");
  }
  if (speeds.first == 0) speeds = {kInTurns, kInTurns};
  if (!speeds_.emplace(Kinds{one, other}, speeds).second) {
    return table.wrong(row, "job_b",
                       "the pair of " + one + " and " + other + " stands there twice");
  }
  if (one != other) speeds_.emplace(Kinds{other, one}, Pair{speeds.second, speeds.first});
  return {};
}

Result<SpeedRule> PairSpeeds::rule(const std::vector<SimJob>& jobs) const {
  std::map<std::string, size_t> kinds;  // numbered
  std::vector<size_t> kind_of;          // by job
  for (const SimJob& job : jobs) {
    if (job.kind.empty()) {
      return Error{ErrorCode::invalid_argument, "job " + job.options.name +
                                                    " has no model_name, which says its kind in " +
                                                    name_ + ": give the trace that column"};
    }
    kind_of.push_back(kinds.try_emplace(job.kind, kinds.size()).first->second);
  }
  // By both kinds' numbers, so that nothing is looked up by name while time passes.
  auto speeds = std::make_shared<std::vector<Pair>>(kinds.size() * kinds.size());
  for (const auto& [one, number] : kinds) {
    for (const auto& [other, other_number] : kinds) {
      const auto found = speeds_.find({one, other});
      if (found == speeds_.end()) {
        return Error{ErrorCode::invalid_argument, name_ + " has no speeds of " + one + " beside " +
                                                      other + ", which the trace's jobs are of"};
      }
      (*speeds)[number * kinds.size() + other_number] = found->second;
    }
  }
  return SpeedRule([speeds, kind_of, count = kinds.size()](std::span<const size_t> computing,
                                                           std::span<double> speed) {
    LW_CHECK(computing.size() <= kLanes, "pairs know of two jobs at a time");
    if (computing.size() < kLanes) return;
    std::tie(speed[0], speed[1]) = (*speeds)[kind_of[computing[0]] * count + kind_of[computing[1]]];
  });
}

}  // namespace laneway::simulator
