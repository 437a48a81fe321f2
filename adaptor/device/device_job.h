// DeviceJob: a job on its device: its image and its generator; it makes the job's graphs. One
// thread at a time, except for const functions.
//
// make_job is the seam between the worker and the computing library: adaptor/run defines it over
// LibTorch, and tests of the worker link a definition of their own.
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

  // Makes a further graph over the same image. `known`: null, or the program of a graph with the
  // same bytes that another job with the same slots had on this backend. out_of_memory when the
  // graph's prediction is above `most` ephemeral bytes, invalid_argument when its process-wide math
  // flags are not the job's.
  virtual Result<std::unique_ptr<DeviceGraph>> make_graph(std::span<const std::byte> graph,
                                                          Bytes most,
                                                          const ProgramHandle& known) = 0;

  // The random state, in the form of torch.get_rng_state().
  virtual Status set_random_state(std::span<const std::byte> state) = 0;
  virtual std::vector<std::byte> random_state() const = 0;

  // Sets the address of the image's bytes; nullptr: the image has no place. Requires: no iteration
  // runs.
  virtual void bind_image(std::byte* base) = 0;
  // The same for an image whose bytes are still on their way there, and are those of `copy`, in the
  // CPU's memory; null: the CPU reaches them at `base`. Nodes run when the bytes that they use have
  // come.
  virtual void bind_arriving_image(std::byte* base, const std::byte* copy) = 0;
  // Must be called after anything but the job's graphs wrote state, in the bound image or in bytes
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

// Makes a job and its first graph; `known` is as in make_graph. `slots` are in the order of their
// numbers; the image's layout follows the first graph's use of them. `first_graph` is the graph's
// binary form. invalid_graph has the rule that it breaks. Estimates stay within a pool of `pool`
// bytes where the prediction does. Requires: `backend` was opened by open_backend and outlives the
// job.
Result<MadeJob> make_job(Backend& backend, std::vector<lanes::ImageSlot> slots,
                         std::span<const std::byte> first_graph, Bytes pool,
                         const ProgramHandle& known = nullptr);

}  // namespace laneway::adaptor
