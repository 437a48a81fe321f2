// TorchJob: a job as the adaptor sees it: its image (one borrowed storage) and its generator, and
// the maker of its graphs. This header names nothing of torch, so that the worker above can hold
// jobs without including it. One thread at a time, but for what is const.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "adaptor/device/backend.h"
#include "adaptor/run/torch_graph.h"
#include "base/bytes.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

class TorchJob {
 public:
  struct Made {
    std::unique_ptr<TorchJob> job;
    std::unique_ptr<TorchGraph> graph;
  };
  // On `backend`, which outlives the job. Slots in the order of their numbers; the image's layout
  // follows the first graph's use. `first_graph` is its binary form. invalid_graph says what is
  // wrong with it. Estimates stay within a pool of `pool` bytes where the prediction does.
  static Result<Made> make(Backend& backend, std::vector<lanes::ImageSlot> slots,
                           std::span<const std::byte> first_graph, Bytes pool);
  ~TorchJob();

  // A further graph over the same image. out_of_memory when it predicts more than `most` ephemeral
  // bytes, invalid_argument when its process-wide math flags are not the job's.
  Result<std::unique_ptr<TorchGraph>> make_graph(std::span<const std::byte> graph, Bytes most);

  // The bytes of torch.get_rng_state().
  Status set_random_state(std::span<const std::byte> state);
  std::vector<std::byte> random_state() const;

  // Where the image's bytes are now; nullptr: nowhere. Never during an iteration.
  void bind_image(std::byte* base);
  // Somebody else than the job's graphs wrote state where the image is bound, or to bytes that are
  // not placed yet. Never during an iteration, and when everything of earlier ones has retired.
  void state_written();

  const pipeline::ImageLayout& layout() const;
  // Jobs with different keys never run at the same time.
  uint64_t context_key() const;

 private:
  struct State;
  explicit TorchJob(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace laneway::adaptor
