// JobFiles: a job as files of a folder, written by bench/job_files.py: graph, slots ("BYTES KIND
// NAME" a line), image (the slots' bytes), inputs and outputs (bytes; a number is a double),
// input_sizes and output_sizes. The outputs are empty where no program compares them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adaptor/run/torch_job.h"
#include "base/image_slot.h"
#include "base/result.h"
#include "lanes/graph/graph.h"
#include "lanes/run/graph_runner.h"

namespace laneway::bench {

struct JobFiles {
  std::vector<char> graph;
  std::vector<ImageSlot> slots;
  std::vector<char> image;
  std::vector<char> inputs, outputs;
  std::vector<uint64_t> input_sizes, output_sizes;

  // The image's bytes at their places in the layout; an error when there are too few.
  Result<std::vector<std::byte>> image_in(const pipeline::ImageLayout& layout) const;
  // Requires: `of` is the graph, which has as many inputs as there are sizes.
  std::vector<lanes::InputView> input_views(const lanes::Graph& of) const;
  // Into `memory`, which has as many bytes as `outputs`.
  std::vector<lanes::OutputView> output_views(std::vector<char>& memory) const;
};

// The error names the file that cannot be read.
Result<JobFiles> read_job_files(const std::string& folder);

}  // namespace laneway::bench
