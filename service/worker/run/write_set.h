// WriteSet: which slots of a job's image an iteration of a graph writes, and before which node each
// must be saved so that the iteration can be taken back. A node is counted where the graph declares
// its writes; what runs it later (a chain) only writes later. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "lanes/graph/graph.h"

namespace laneway::service {

class WriteSet {
 public:
  explicit WriteSet(const lanes::Graph& graph);

  bool empty() const { return slots_.empty(); }
  // Each slot once, in the order of the first writes.
  std::span<const uint32_t> slots() const { return slots_; }
  // Of all its slots.
  Bytes bytes() const { return bytes_; }
  // The slots that the node is the first to write.
  std::span<const uint32_t> first_written_by(size_t node) const;

 private:
  std::vector<uint32_t> slots_;
  std::vector<uint32_t> ends_;  // by node: how many of the slots are written when it is done
  Bytes bytes_;
};

}  // namespace laneway::service
