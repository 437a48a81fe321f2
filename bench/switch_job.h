// SwitchJob: a model whose image is brought into the pool again and again, in one process and
// without the service: the graph, the image's bytes outside, the pool, the link between them, a
// lane. Ends the process with a sentence when something does not work. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adaptor/host/host_backend.h"
#include "adaptor/run/torch_job.h"
#include "base/bytes.h"
#include "bench/job_files.h"
#include "lanes/run/graph_runner.h"
#include "memory/lane_arena.h"
#include "memory/planned_tape.h"

namespace laneway::bench {

[[noreturn]] void give_up(const std::string& why);

// A piece of an image, from byte to byte.
struct Piece {
  Bytes begin;
  Bytes end;
};

class SwitchJob {
 public:
  SwitchJob(const std::string& folder, int64_t bytes_per_s);

  Bytes size() const { return made_.job->layout().total(); }
  lanes::GraphRunner& runner() { return made_.graph->runner(); }
  // By node, and behind the last one for the answer, which needs all.
  const std::vector<Bytes>& needs() const { return needs_; }
  // The image in pieces: slot by slot; by what the nodes wait for, in their order; by the first
  // parts of the slots' names ("layer1.0"), which are the model's modules.
  std::vector<Piece> by_slot() const;
  std::vector<Piece> by_need() const;
  std::vector<Piece> by_module() const;

  // No byte of the image is in the pool: all there are NaN.
  void take_away();
  // All are, by no link.
  void put_there();
  // By the link; `bounce`: by way of another buffer, as pageable memory goes.
  void copy(const Piece& piece, bool bounce);
  // Runs the graph once by `runner`, which is runner() or stands around it, and compares the answer
  // with what it must be.
  void run(lanes::GraphRunner& runner);

 private:
  adaptor::HostBackend backend_;
  JobFiles files_;
  adaptor::TorchJob::Made made_;
  std::vector<std::string> names_;
  std::vector<Bytes> needs_;
  std::unique_ptr<memory::MemoryBlock> pool_;
  std::unique_ptr<memory::MemoryBlock> lane_memory_;
  std::unique_ptr<adaptor::DeviceLane> lane_;
  std::unique_ptr<memory::LaneArena> arena_;
  std::shared_ptr<const memory::PlannedTape> plan_;
  std::vector<std::byte> outside_;  // as in the pool
  std::vector<std::byte> buffer_;
  std::vector<char> given_;
  std::vector<lanes::InputView> input_views_;
  std::vector<lanes::OutputView> output_views_;
};

}  // namespace laneway::bench
