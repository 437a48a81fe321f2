// TorchJob: a job as the adaptor sees it: its image (one borrowed storage), its generator, and its
// graphs, each decoded, checked and resolved against torch's dispatcher. This header names nothing
// of torch, so that the worker above can hold jobs without including it. One thread at a time, but
// for graph_count and graph, which any thread may call while a graph is added.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/graph/graph_sizes.h"
#include "lanes/graph_runner.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

class TorchJob {
 public:
  // Slots in the order of their numbers; the image's layout follows the first graph's use.
  // `first_graph` is its binary form. invalid_graph says what is wrong with it. Estimates stay
  // within a pool of `pool` bytes where the prediction does.
  static Result<std::unique_ptr<TorchJob>> make(std::vector<lanes::ImageSlot> slots,
                                                std::span<const std::byte> first_graph, Bytes pool);
  ~TorchJob();

  // The index of the new graph. out_of_memory when it predicts more than `most` ephemeral bytes:
  // the job is as before.
  Result<uint32_t> add_graph(std::span<const std::byte> graph, Bytes most);

  // The bytes of torch.get_rng_state().
  Status set_random_state(std::span<const std::byte> state);
  std::vector<std::byte> random_state() const;

  // Where the image's bytes are now; nullptr: nowhere. Never during an iteration.
  void bind_image(std::byte* base);

  const pipeline::ImageLayout& layout() const;
  uint32_t graph_count() const;
  const lanes::Graph& graph(uint32_t index) const;
  // What capture's sizes predict: E, and the need from each node on.
  const lanes::GraphMemory& memory(uint32_t index) const;
  // What a lane must have for the first, unplanned iteration of this graph.
  Bytes probe_need(uint32_t index) const;
  lanes::GraphRunner& runner(uint32_t index);
  // Jobs with different keys never run at the same time.
  uint64_t context_key() const;

 private:
  struct State;
  explicit TorchJob(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace laneway::adaptor
