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
  wire::JobClass job_class = wire::JobClass::training;
  std::vector<wire::SlotSpec> slots;
  std::vector<wire::GraphInfo> graphs;
};

// An iteration of the graph may be queued with these inputs; else invalid_argument names the input.
Status check_inputs(const wire::GraphInfo& graph, std::span<const laneway_input> inputs);
// There is room for each output; else invalid_argument names the output.
Status check_outputs(const wire::GraphInfo& graph, std::span<const laneway_output> outputs);
// The slots that are named exist and have the sizes that are given.
Status check_slots(const std::string& job, std::span<const wire::SlotSpec> slots,
                   std::span<const laneway_slot_copy> copies);
// The options are there, of a known size, and name kinds and classes that exist. What lies behind
// the caller's size is not read: see is_shared and replay_of.
Status check_job_options(const laneway_job_options* options, const void* graph);
bool is_shared(const laneway_job_options& options);
wire::Replay replay_of(const laneway_job_options& options);
Error no_such_graph(const std::string& job, uint32_t number);

// As laneway_job_describe says.
std::string describe_json(const JobForm& job);

}  // namespace laneway::service
