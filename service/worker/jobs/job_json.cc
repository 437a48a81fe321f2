#include "service/worker/jobs/job_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace laneway::service {
namespace {

using Json = nlohmann::ordered_json;

Json tape_json(const memory::AllocationTape& tape, const std::vector<memory::TapePosition>& marks) {
  Json allocations = Json::array();
  for (const memory::TapeAllocation& allocation : tape.allocations) {
    allocations.push_back({allocation.bytes, allocation.frees_before});
  }
  Json positions = Json::array();
  for (const memory::TapePosition& mark : marks) {
    positions.push_back({mark.allocations, mark.frees});
  }
  return {{"allocations", std::move(allocations)},
          {"frees", tape.frees},
          {"marks", std::move(positions)}};
}

// What of a graph was there already when its job got it, and how many jobs have it now.
Json shared_json(const GraphOrigin& origin, const GraphPlan& plan) {
  return {{"resolved", origin.was_known},
          {"planned", plan.is_shared},
          {"jobs", std::max<int64_t>(1, origin.known.use_count())}};
}

Json plan_json(const WorkerGraph& of, const GraphPlan& plan, bool with_tape) {
  const lanes::Graph& graph = of.torch->graph();
  const lanes::GraphMemory& predicted = of.torch->memory();
  Json json = {{"name", graph.name},
               {"nodes", graph.nodes.size()},
               {"first_write", graph.first_write},
               {"need_bytes", plan.need.count()},
               {"predicted_peak_bytes", predicted.peak.count()},
               {"planned_peak_bytes", nullptr},
               {"bound_bytes", nullptr},
               {"forms", {{"late", {{"bound_bytes", nullptr}, {"peak_bytes", nullptr}}}}},
               {"plan_s", nullptr},
               {"iterations", plan.iterations},
               {"probes", plan.probes},
               {"off_tape_count", plan.off_tape},
               {"replayed_count", plan.replayed},
               {"replay",
                {{"recorded", plan.recordings.made},
                 {"nodes", plan.recordings.nodes},
                 {"refused", nullptr}}},
               {"shared", shared_json(of.origin, plan)},
               {"address_hash", plan.address_hash},
               {"address_changes", plan.address_changes}};
  if (!plan.recordings.refused.empty()) json["replay"]["refused"] = plan.recordings.refused;
  if (with_tape) json["predicted_tape"] = tape_json(predicted.tape, predicted.marks);
  if (plan.planned == nullptr) return json;
  json["planned_peak_bytes"] = plan.planned->plan.peak.count();
  json["bound_bytes"] = plan.bound.count();
  json["forms"]["late"] = {{"bound_bytes", plan.bound.count()},
                           {"peak_bytes", plan.planned->plan.peak.count()}};
  json["plan_s"] = plan.plan_s;
  if (with_tape) json["tape"] = tape_json(plan.planned->tape, plan.marks);
  return json;
}

Json recovery_json(const RecoveryReport& recovery) {
  Json json = {{"method", recovery_method_name(recovery.choice.method)},
               {"share", recovery.choice.share},
               {"interval", recovery.choice.interval},
               {"replay_s", recovery.choice.redo.seconds()},
               {"bytes", recovery.bytes.count()},
               {"missing", nullptr}};
  if (!recovery.missing.empty()) json["missing"] = recovery.missing;
  return json;
}

}  // namespace

std::string job_json(const WorkerJob& job,
                     const std::vector<std::pair<GraphHandle, GraphPlan>>& plans,
                     const RecoveryReport& recovery, const std::string& status_line,
                     bool with_tapes) {
  Json graphs = Json::array();
  for (const auto& [graph, plan] : plans) {
    Json json = plan_json(*graph, plan, with_tapes);
    json["number"] = graph->number;
    graphs.push_back(std::move(json));
  }
  const Json report = {{"id", job.id.value()},
                       {"name", job.name},
                       {"status", Json::parse(status_line)},
                       {"image_bytes", job.torch->layout().total().count()},
                       {"recovery", recovery_json(recovery)},
                       {"graphs", std::move(graphs)}};
  return report.dump();
}

}  // namespace laneway::service
