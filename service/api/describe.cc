#include <array>
#include <nlohmann/json.hpp>

#include "base/value_kind.h"
#include "service/api/job_form.h"

namespace laneway::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 5> kSlotKinds = {"parameter", "buffer", "optimizer_state",
                                                   "gradient", "constant"};

Json describe(const wire::GraphInfo& graph) {
  Json inputs = Json::array();
  for (const wire::InputInfo& input : graph.inputs) {
    inputs.push_back(
        {{"kind", value_kind_name(input.kind)}, {"bytes", input.bytes}, {"name", input.name}});
  }
  Json outputs = Json::array();
  for (const wire::OutputInfo& output : graph.outputs) {
    outputs.push_back({{"kind", value_kind_name(output.kind)}, {"bytes", output.bytes}});
  }
  return {{"number", graph.number},
          {"name", graph.name},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)}};
}

}  // namespace

std::string describe_json(const JobForm& job) {
  Json slots = Json::array();
  for (const ImageSlot& slot : job.slots) {
    slots.push_back({{"name", slot.name},
                     {"kind", kSlotKinds.at(static_cast<size_t>(slot.kind))},
                     {"bytes", slot.bytes}});
  }
  Json graphs = Json::array();
  for (const wire::GraphInfo& graph : job.graphs) graphs.push_back(describe(graph));
  const Json all = {{"name", job.name},
                    {"class", job_class_name(job.job_class)},
                    {"slots", std::move(slots)},
                    {"graphs", std::move(graphs)}};
  // Names come from clients: what is no UTF-8 is replaced.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace laneway::service
