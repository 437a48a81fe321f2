// TorchGraph: one graph of a TorchJob, decoded, checked and resolved against torch's dispatcher,
// with the prediction of its memory from the capture's sizes. TorchJob makes it; it uses the job's
// image and generator, so it must not run after the job's end (it may be destroyed later). Includes
// nothing of torch. One thread at a time may run it; any thread may call its const functions.
#pragma once

#include <memory>

#include "adaptor/device/device_graph.h"

namespace laneway::adaptor {

class TorchGraphRunner;
struct TorchProgram;

class TorchGraph final : public DeviceGraph {
 public:
  TorchGraph(std::shared_ptr<const TorchProgram> program, Bytes probe_need,
             std::unique_ptr<TorchGraphRunner> runner);
  ~TorchGraph() override;
  TorchGraph(const TorchGraph&) = delete;
  TorchGraph& operator=(const TorchGraph&) = delete;

  const lanes::Graph& graph() const override;
  const lanes::GraphMemory& memory() const override;
  ProgramHandle program() const override;
  Bytes probe_need() const override { return probe_need_; }
  uint32_t threads() const override;
  bool draws() const override;
  lanes::GraphRunner& runner() override;
  void allow_replay(bool allowed) override;
  void allow_existing_recordings() override;
  bool replays() const override;
  uint64_t replayed() const override;
  const Recordings& recordings() const override;

 private:
  const std::shared_ptr<const TorchProgram> program_;
  const Bytes probe_need_;
  const std::unique_ptr<TorchGraphRunner> runner_;
};

}  // namespace laneway::adaptor
