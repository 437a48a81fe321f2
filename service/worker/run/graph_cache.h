// GraphCache: the graphs that the worker knows, by their bytes: jobs with equal graphs have one
// KnownGraph, so that the hundredth of them is not decoded, checked, resolved and measured again.
// Graphs are equal when their bytes and their images' slots are, which is compared; hashes, made
// here, only say where to look. A graph is known for as long as a job has it; of those that no job
// has, the ones used last stay, within limits::kMaxUnusedGraphs and kMaxUnusedGraphBytes.
//
// Thread-safe. Two threads that make the same graph at the same time may both resolve it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adaptor/device/backend.h"
#include "adaptor/device/device_job.h"
#include "base/bytes.h"
#include "base/image_slot.h"
#include "base/result.h"
#include "service/worker/run/known_graph.h"

namespace laneway::service {

class GraphCache {
 public:
  using Hash = uint64_t (*)(std::span<const std::byte>);
  static uint64_t hash_of(std::span<const std::byte> bytes);

  explicit GraphCache(Hash hash = &GraphCache::hash_of);
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // adaptor::make_job and DeviceJob::make_graph with what is known; what they make is known
  // afterwards. Their errors; nothing is known of what they refuse.
  struct Job {
    adaptor::MadeJob made;
    GraphOrigin origin;
  };
  Result<Job> make_job(adaptor::Backend& backend, const std::vector<ImageSlot>& slots,
                       std::span<const std::byte> graph, Bytes pool);
  struct Graph {
    std::unique_ptr<adaptor::DeviceGraph> made;
    GraphOrigin origin;
  };
  Result<Graph> make_graph(adaptor::DeviceJob& job, std::span<const std::byte> graph, Bytes most);

  // Null when it is not known.
  KnownGraphHandle find(std::span<const std::byte> bytes, std::span<const ImageSlot> slots);
  // The one that was known before, if it was.
  KnownGraphHandle add(std::span<const std::byte> bytes, std::span<const ImageSlot> slots,
                       adaptor::ProgramHandle program);
  // How many graphs are known, and how many of them no job has.
  struct Counts {
    size_t known = 0;
    size_t unused = 0;
  };
  Counts counts() const;

 private:
  struct State;

  GraphOrigin origin_of(KnownGraphHandle known, const adaptor::DeviceGraph& made,
                        std::span<const std::byte> bytes, std::span<const ImageSlot> slots);

  // Handles outlive the cache where jobs do.
  const std::shared_ptr<State> state_;
};

}  // namespace laneway::service
