// GraphRoom: what a graph may ask of a worker beside the pool, asked before it is decoded: threads,
// and the memory of resolved graphs, of one user and of all. Equal graphs are resolved once and
// count once. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "service/worker/run/known_graph.h"

namespace laneway::service {

class GraphRoom {
 public:
  struct Limits {
    uint32_t threads = 0;  // of an iteration; 0: no bound
    Bytes resolved;        // of all users in this worker, one of them half of it; 0: no bound
  };

  explicit GraphRoom(Limits limits) : limits_(limits) {}

  // refused, with value, limit and remedy, when its operators want more threads; invalid_graph when
  // its first fields cannot be read. A number of threads is never lowered: bits depend on it.
  Status check_threads(std::span<const std::byte> graph) const;
  // refused, with value, limit and remedy, when the user's resolved graphs, or everybody's, would
  // take more with one of that length. Requires: no equal one is known.
  Status check_memory(uint32_t user, Bytes length);
  // A job of the user has it from now on; it counts for as long as any job has it. Null: nothing.
  void note(uint32_t user, const KnownGraphHandle& graph);

 private:
  struct Noted {
    uint32_t user;
    std::weak_ptr<KnownGraph> graph;
  };

  const Limits limits_;
  std::vector<Noted> noted_;
};

}  // namespace laneway::service
