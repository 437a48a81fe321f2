// SyntheticJob: a job whose graphs are SyntheticGraphs. Its random state has the size of torch's,
// of which the first eight bytes count. make_job, which this library defines, makes them. One
// thread at a time, but for what is const.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adaptor/device/device_job.h"
#include "tests/service/synthetic/synthetic_graph.h"

namespace laneway::testing {

// The program of a job's graph: `known`, or one that is made of the bytes.
Result<std::shared_ptr<const SyntheticProgram>> program_of(std::span<const std::byte> bytes,
                                                           std::span<const lanes::ImageSlot> slots,
                                                           const adaptor::ProgramHandle& known,
                                                           int64_t alignment);

class SyntheticJob final : public adaptor::DeviceJob {
 public:
  SyntheticJob(pipeline::ImageLayout layout, int64_t alignment);

  // A graph of that program; also one that is larger than `most`.
  std::unique_ptr<SyntheticGraph> load(std::shared_ptr<const SyntheticProgram> program, Bytes most);

  Result<std::unique_ptr<adaptor::DeviceGraph>> make_graph(
      std::span<const std::byte> graph, Bytes most, const adaptor::ProgramHandle& known) override;
  Status set_random_state(std::span<const std::byte> state) override;
  std::vector<std::byte> random_state() const override;
  void bind_image(std::byte* base) override { state_->image = base; }
  void bind_arriving_image(std::byte* base, const std::byte*) override { bind_image(base); }
  void state_written() override {}
  const pipeline::ImageLayout& layout() const override { return state_->layout; }
  uint64_t context_key() const override { return 1; }

 private:
  const std::unique_ptr<SyntheticState> state_;
};

}  // namespace laneway::testing
