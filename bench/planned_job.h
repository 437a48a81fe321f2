// PlannedJob: the job of bench/job_files.h on this thread alone, for programs that look at its
// tapes and run it by plans of their own: an image, a lane's memory, and graphs over them. Every
// iteration begins with the files' image and inputs, and one random state. What fails ends the
// program with a sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adaptor/device/device_graph.h"
#include "adaptor/host/host_backend.h"
#include "adaptor/run/torch_job.h"
#include "base/result.h"
#include "bench/job_files.h"
#include "lanes/run/graph_runner.h"
#include "memory/lane_arena.h"
#include "memory/planned_tape.h"

namespace laneway::bench {

// "PROGRAM: WHY" on stderr; exit code 1.
[[noreturn]] void fail(const std::string& why);

template <class T>
T value_of(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(result).value();
}

class PlannedJob {
 public:
  explicit PlannedJob(const std::string& folder);

  int64_t alignment() { return backend_.alignment(); }
  adaptor::TorchGraph& graph() { return *made_.graph; }
  // Another graph over the same image and inputs. The error is that of whoever loads it.
  Result<std::unique_ptr<adaptor::DeviceGraph>> make_graph(std::span<const std::byte> bytes);

  // A probe, with a mark for each node.
  memory::LaneArena::Use record(adaptor::DeviceGraph& graph);
  // An iteration by a plan that was made of its tape, over the graph's runner or one around it.
  void run_planned(adaptor::DeviceGraph& graph, lanes::GraphRunner& runner,
                   const std::shared_ptr<const memory::PlannedTape>& planned);

  // Of the iteration before: the image, then the outputs.
  std::vector<std::byte> results() const;

 private:
  std::vector<lanes::OutputView> output_views(const lanes::Graph& graph);
  // Once the arena has begun.
  memory::LaneArena::Use run(const lanes::Graph& graph, lanes::GraphRunner& runner);

  adaptor::HostBackend backend_;
  const JobFiles files_;
  adaptor::TorchJob::Made made_;
  const std::vector<std::byte> image_, random_state_;
  std::vector<std::vector<std::byte>> outputs_;
  std::unique_ptr<memory::MemoryBlock> pool_, lane_memory_;
  std::unique_ptr<adaptor::DeviceLane> lane_;
  memory::LaneArena arena_;
};

}  // namespace laneway::bench
