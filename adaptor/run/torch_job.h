// TorchJob: a job on LibTorch: its image (one borrowed storage) and its generator; it makes the
// job's graphs. One thread at a time, except for const functions.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "adaptor/device/device_job.h"
#include "adaptor/device/torch_backend.h"
#include "adaptor/run/torch_graph.h"
#include "base/bytes.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "pipeline/image.h"

namespace laneway::adaptor {

class TorchJob final : public DeviceJob {
 public:
  struct Made {
    std::unique_ptr<TorchJob> job;
    std::unique_ptr<TorchGraph> graph;
  };
  // See make_job.
  static Result<Made> make(TorchBackend& backend, std::vector<lanes::ImageSlot> slots,
                           std::span<const std::byte> first_graph, Bytes pool,
                           const ProgramHandle& known);
  ~TorchJob() override;

  Result<std::unique_ptr<DeviceGraph>> make_graph(std::span<const std::byte> graph, Bytes most,
                                                  const ProgramHandle& known) override;
  Status set_random_state(std::span<const std::byte> state) override;
  std::vector<std::byte> random_state() const override;
  void bind_image(std::byte* base) override;
  void bind_arriving_image(std::byte* base, const std::byte* copy) override;
  void state_written() override;
  const pipeline::ImageLayout& layout() const override;
  uint64_t context_key() const override;

 private:
  struct State;
  explicit TorchJob(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace laneway::adaptor
