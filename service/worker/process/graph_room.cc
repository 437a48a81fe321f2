#include "service/worker/process/graph_room.h"

#include <algorithm>
#include <set>
#include <string>

#include "lanes/graph/graph_head.h"

namespace laneway::service {
namespace {

Error over(const std::string& whose, Bytes has, Bytes wanted, Bytes most) {
  return Error{ErrorCode::refused,
               whose + " take about " + format_bytes(has) + " of each worker's memory, and " +
                   format_bytes(wanted) + " more are wanted; the limit is " + format_bytes(most) +
                   ": close jobs, drop graphs, capture smaller ones, or start lanewayd with a "
                   "larger --graph-memory"};
}

}  // namespace

Status GraphRoom::check_threads(std::span<const std::byte> graph) const {
  const auto head = lanes::read_graph_head(graph);
  if (!head) return head.error();
  const int32_t wanted = head.value().threads;
  const int64_t most = limits_.threads;
  if (most == 0 || wanted <= most) return {};
  return Error{ErrorCode::refused,
               "the graph was captured with " + std::to_string(wanted) +
                   " threads; an iteration may have " + std::to_string(most) +
                   " in this service: call torch.set_num_threads(" + std::to_string(most) +
                   ") before the capture, or start lanewayd with --max-threads " +
                   std::to_string(wanted)};
}

Status GraphRoom::check_memory(uint32_t user, Bytes length) {
  if (limits_.resolved == Bytes()) return {};
  std::erase_if(noted_, [](const Noted& one) { return one.graph.expired(); });
  std::set<const KnownGraph*> seen;
  Bytes of_user;
  Bytes all;
  for (const Noted& one : noted_) {
    const KnownGraphHandle graph = one.graph.lock();
    if (graph == nullptr) continue;
    if (seen.insert(graph.get()).second) all += lanes::resolved_bytes(graph->size());
    if (one.user == user) of_user += lanes::resolved_bytes(graph->size());
  }
  const Bytes wanted = lanes::resolved_bytes(length);
  const Bytes most_of_user = Bytes(limits_.resolved.count() / 2);
  if (of_user + wanted > most_of_user) {
    return over("the resolved graphs of user " + std::to_string(user), of_user, wanted,
                most_of_user);
  }
  if (all + wanted > limits_.resolved) {
    return over("the resolved graphs of all users", all, wanted, limits_.resolved);
  }
  return {};
}

void GraphRoom::note(uint32_t user, const KnownGraphHandle& graph) {
  if (graph == nullptr || limits_.resolved == Bytes()) return;
  const bool known = std::any_of(noted_.begin(), noted_.end(), [&](const Noted& one) {
    return one.user == user && one.graph.lock() == graph;
  });
  if (!known) noted_.push_back({user, graph});
}

}  // namespace laneway::service
