#include "service/worker/run/write_set.h"

#include <set>

namespace laneway::service {

WriteSet::WriteSet(const lanes::Graph& graph) {
  std::set<uint32_t> written;
  ends_.reserve(graph.nodes.size());
  for (const lanes::Node& node : graph.nodes) {
    for (const lanes::ValueIndex value : node.writes) {
      const lanes::Storage& storage = graph.storages[graph.values[value].storage];
      if (storage.kind != lanes::StorageKind::persistent) continue;
      if (!written.insert(storage.index).second) continue;
      slots_.push_back(storage.index);
      bytes_ += Bytes(static_cast<int64_t>(storage.bytes));
    }
    ends_.push_back(static_cast<uint32_t>(slots_.size()));
  }
}

std::span<const uint32_t> WriteSet::first_written_by(size_t node) const {
  const uint32_t from = node == 0 ? 0 : ends_[node - 1];
  return std::span(slots_).subspan(from, ends_[node] - from);
}

}  // namespace laneway::service
