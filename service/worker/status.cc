#include "service/worker/status.h"

#include <nlohmann/json.hpp>

namespace laneway::service {
namespace {

using Json = nlohmann::ordered_json;

template <class IdType>
Json id_or_null(IdType id) {
  return id.valid() ? Json(id.value()) : Json(nullptr);
}

template <class IdType>
Json ids(const std::vector<IdType>& list) {
  Json array = Json::array();
  for (const IdType id : list) array.push_back(id.value());
  return array;
}

const char* class_name(policies::JobClass job_class) {
  switch (job_class) {
    case policies::JobClass::training: return "training";
    case policies::JobClass::inference: return "inference";
    case policies::JobClass::best_effort: return "best_effort";
  }
  return "unknown";
}

Json reason_json(const lanes::Reason& reason) {
  if (reason.code == lanes::ReasonCode::none) return nullptr;
  return {{"code", lanes::reason_code_name(reason.code)},
          {"text", lanes::reason_text(reason)},
          {"numbers",
           {{"persistent_bytes", reason.persistent.count()},
            {"region_bytes", reason.region.count()},
            {"capacity_bytes", reason.capacity.count()},
            {"claimed_bytes", reason.claimed.count()},
            {"largest_free_bytes", reason.largest_free.count()},
            {"position", reason.position}}}};
}

Json job_line(const lanes::JobStatus& job, const std::string& user) {
  return {{"id", job.id.value()},
          {"name", job.name},
          {"user", user},
          {"class", class_name(job.job_class)},
          {"priority", job.priority},
          {"weight", job.weight},
          {"state", lanes::job_state_name(job.state)},
          {"lane", id_or_null(job.lane)},
          {"persistent_bytes", job.persistent.count()},
          {"ephemeral_bytes", job.ephemeral.count()},
          {"iterations", job.iterations},
          {"device_time_s", job.device_time.seconds()},
          {"reason", reason_json(job.reason)}};
}

int64_t claimed(const lanes::Snapshot& snapshot, memory::ClaimClass claim_class) {
  return snapshot.claimed_by_class[static_cast<size_t>(claim_class)].count();
}

Json pool_json(const lanes::Snapshot& snapshot) {
  const int64_t persistent = claimed(snapshot, memory::ClaimClass::persistent);
  const int64_t regions = claimed(snapshot, memory::ClaimClass::region);
  return {
      {"capacity_bytes", snapshot.capacity.count()},
      {"persistent_bytes", persistent},
      {"region_bytes", regions},
      {"other_bytes", snapshot.claimed.count() - persistent - regions - snapshot.reserve.count()},
      {"reserve_bytes", snapshot.reserve.count()},
      {"free_bytes", (snapshot.capacity - snapshot.claimed).count()}};
}

Json map_json(const lanes::Snapshot& snapshot) {
  Json map = Json::array();
  for (const lanes::PoolPiece& piece : snapshot.pool) {
    const char* kind = piece.kind == lanes::PieceKind::image    ? "image"
                       : piece.kind == lanes::PieceKind::region ? "region"
                                                                : "free";
    map.push_back({{"offset", piece.offset.count()},
                   {"bytes", piece.size.count()},
                   {"kind", kind},
                   {"job", id_or_null(piece.job)},
                   {"region", id_or_null(piece.region)},
                   {"lane", id_or_null(piece.lane)}});
  }
  return map;
}

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

Json plan_json(const GraphPlan& plan, const lanes::Graph& graph,
               const lanes::GraphMemory& predicted, bool with_tape) {
  Json json = {{"name", graph.name},
               {"nodes", graph.nodes.size()},
               {"first_write", graph.first_write},
               {"need_bytes", plan.need.count()},
               {"predicted_peak_bytes", predicted.peak.count()},
               {"planned_peak_bytes", nullptr},
               {"bound_bytes", nullptr},
               {"plan_s", nullptr},
               {"iterations", plan.iterations},
               {"probes", plan.probes},
               {"off_tape_count", plan.off_tape},
               {"address_hash", plan.address_hash},
               {"address_changes", plan.address_changes}};
  if (with_tape) json["predicted_tape"] = tape_json(predicted.tape, predicted.marks);
  if (plan.planned == nullptr) return json;
  json["planned_peak_bytes"] = plan.planned->plan.peak.count();
  json["bound_bytes"] = plan.bound.count();
  json["plan_s"] = plan.plan_s;
  if (with_tape) json["tape"] = tape_json(plan.planned->tape, plan.marks);
  return json;
}

}  // namespace

std::string status_json(const ServiceFacts& service, const lanes::Snapshot& snapshot) {
  Json regions = Json::array();
  for (const lanes::RegionStatus& region : snapshot.regions) {
    regions.push_back({{"id", region.id.value()},
                       {"bytes", region.size.count()},
                       {"lanes", ids(std::vector<LaneId>{region.lane})}});
  }
  Json lanes_list = Json::array();
  for (const lanes::LaneStatus& lane : snapshot.lanes) {
    lanes_list.push_back({{"id", lane.id.value()},
                          {"region", id_or_null(lane.region)},
                          {"jobs", ids(lane.jobs)},
                          {"running", id_or_null(lane.running)}});
  }
  Json jobs = Json::array();
  for (const lanes::JobStatus& job : snapshot.jobs) jobs.push_back(job_line(job, service.user));
  for (const lanes::JobStatus& job : snapshot.ended) jobs.push_back(job_line(job, service.user));
  const Json worker = {{"pid", service.pid}, {"role", "active"}, {"state", "ready"}};
  const Json status = {{"service",
                        {{"pid", service.pid},
                         {"version", service.version},
                         {"device", service.device},
                         {"policy", snapshot.policy},
                         {"uptime_s", service.uptime_s}}},
                       {"pool", pool_json(snapshot)},
                       {"workers", Json::array({worker})},
                       {"regions", std::move(regions)},
                       {"lanes", std::move(lanes_list)},
                       {"jobs", std::move(jobs)},
                       {"map", map_json(snapshot)}};
  return status.dump();
}

std::string job_json(const lanes::Snapshot& snapshot, const WorkerJob& job,
                     const std::vector<std::pair<GraphHandle, GraphPlan>>& plans,
                     const std::string& user, bool with_tapes) {
  Json status = nullptr;
  for (const auto* list : {&snapshot.jobs, &snapshot.ended}) {
    for (const lanes::JobStatus& line : *list) {
      if (line.id == job.id) status = job_line(line, user);
    }
  }
  Json graphs = Json::array();
  for (const auto& [graph, plan] : plans) {
    Json json = plan_json(plan, graph->torch->graph(), graph->torch->memory(), with_tapes);
    json["number"] = graph->number;
    graphs.push_back(std::move(json));
  }
  const Json report = {{"id", job.id.value()},
                       {"name", job.name},
                       {"status", std::move(status)},
                       {"image_bytes", job.torch->layout().total().count()},
                       {"graphs", std::move(graphs)}};
  return report.dump();
}

}  // namespace laneway::service
