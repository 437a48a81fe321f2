// DeviceJob: a job as its device has it: its image, its generator, and the maker of its graphs. One
// thread at a time, but for what is const.
//
// make_job is the seam between the worker and what computes: adaptor/run defines it over LibTorch,
// and tests of the worker link a definition of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adaptor/device/backend.h"
#include "adaptor/device/device_graph.h"
#include "base/bytes.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

class DeviceJob {
 public:
  virtual ~DeviceJob() = default;

  // A further graph over the same image. out_of_memory when it predicts more than `most` ephemeral
  // bytes, invalid_argument when its process-wide math flags are not the job's.
  virtual Result<std::unique_ptr<DeviceGraph>> make_graph(std::span<const std::byte> graph,
                                                          Bytes most) = 0;

  // The bytes of torch.get_rng_state().
  virtual Status set_random_state(std::span<const std::byte> state) = 0;
  virtual std::vector<std::byte> random_state() const = 0;

  // Where the image's bytes are now; nullptr: nowhere. Requires: no iteration runs.
  virtual void bind_image(std::byte* base) = 0;
  // State was written by something else than the job's graphs, where the image is bound or to bytes
  // that are not placed yet. Requires: every iteration has retired.
  virtual void state_written() = 0;

  virtual const pipeline::ImageLayout& layout() const = 0;
  // Jobs with different keys must never run at the same time.
  virtual uint64_t context_key() const = 0;
};

struct MadeJob {
  std::unique_ptr<DeviceJob> job;
  std::unique_ptr<DeviceGraph> graph;  // the first
};

// On `backend`, which outlives the job and was opened by open_backend. Slots in the order of their
// numbers; the image's layout follows the first graph's use. `first_graph` is its binary form.
// invalid_graph says what is wrong with it. Estimates stay within a pool of `pool` bytes where the
// prediction does.
Result<MadeJob> make_job(Backend& backend, std::vector<lanes::ImageSlot> slots,
                         std::span<const std::byte> first_graph, Bytes pool);

}  // namespace laneway::adaptor
