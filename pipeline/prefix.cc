#include "pipeline/prefix.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "base/check.h"

namespace laneway::pipeline {

Bytes prefix_for(const ArrivalPlan& plan, int64_t bytes_per_s) {
  LW_CHECK(plan.needs.size() == plan.starts.size(), "each need has its time");
  Bytes most;
  for (size_t i = 0; i < plan.needs.size(); ++i) {
    // As much as has come by then, rounded down: a byte too many in the prefix harms nobody.
    const double came = plan.starts[i].seconds() * static_cast<double>(bytes_per_s);
    const double need = static_cast<double>(plan.needs[i].count());
    if (came >= need) continue;
    most = std::max(most, plan.needs[i] - Bytes(static_cast<int64_t>(came)));
  }
  return most;
}

Bytes prefix_for_exposed(Bytes kept, Duration exposed, int64_t bytes_per_s) {
  if (exposed <= Duration()) return kept;
  const double more = exposed.seconds() * static_cast<double>(bytes_per_s);
  return kept + Bytes(static_cast<int64_t>(std::ceil(more)));
}

bool replay_is_sooner(const RecordedArrival& graph, int64_t bytes_per_s) {
  const bool known = graph.by_nodes > Duration() && graph.replayed > Duration() && bytes_per_s > 0;
  if (!known) return false;
  const double link_s =
      static_cast<double>(graph.missing.count()) / static_cast<double>(bytes_per_s);
  return link_s + graph.replayed.seconds() < graph.by_nodes.seconds();
}

Result<PrefixRule> parse_prefix_rule(const std::string& text) {
  if (text == "auto") return PrefixRule{};
  if (text == "none") return PrefixRule{.kind = PrefixRule::Kind::none, .percent = 0};
  char* end = nullptr;
  const unsigned long percent = std::strtoul(text.c_str(), &end, 10);
  const bool digits = !text.empty() && text.find_first_not_of("0123456789%") == std::string::npos;
  if (digits && std::string(end) == "%" && percent >= 1 && percent <= 99) {
    return PrefixRule{.kind = PrefixRule::Kind::share, .percent = static_cast<uint32_t>(percent)};
  }
  return Error{ErrorCode::invalid_argument, "give auto, none, or a share from 1% to 99%"};
}

}  // namespace laneway::pipeline
