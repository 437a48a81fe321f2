// What a job and its graphs look like from outside: names, kinds and sizes, nothing that only the
// service knows. Both libraries of laneway.h check a caller's arguments against it, with the same
// sentences, and describe jobs by it. Plain values; the functions are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "service/api/laneway.h"
#include "service/wire/graph_info.h"
#include "service/wire/job_spec.h"

namespace laneway::service {

struct JobForm {
  std::string name;
  JobClass job_class = JobClass::training;
  std::vector<ImageSlot> slots;
  std::vector<wire::GraphInfo> graphs;
};

// An iteration of the graph may be queued with these inputs; else invalid_argument names the input.
Status check_inputs(const wire::GraphInfo& graph, std::span<const laneway_input> inputs);
// There is room for each output; else invalid_argument names the output.
Status check_outputs(const wire::GraphInfo& graph, std::span<const laneway_output> outputs);
// The slots that are named exist and have the sizes that are given.
Status check_slots(const std::string& job, std::span<const ImageSlot> slots,
                   std::span<const laneway_slot_copy> copies);
Error no_such_graph(const std::string& job, uint32_t number);

// As laneway_job_describe says.
std::string describe_json(const JobForm& job);

}  // namespace laneway::service
