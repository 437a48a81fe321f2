#include "service/status/status.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "lanes/core/wait_estimate.h"

namespace laneway::service {
namespace {

using Json = nlohmann::ordered_json;
using wire::JobFacts;
using wire::ServiceFacts;

template <class IdType>
Json id_or_null(IdType id) {
  return id.valid() ? Json(id.value()) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

template <class IdType>
Json ids(const std::vector<IdType>& list) {
  Json array = Json::array();
  for (const IdType id : list) array.push_back(id.value());
  return array;
}

Json reason_json(const lanes::JobStatus& job, const JobFacts& facts) {
  const lanes::Reason& reason = job.reason;
  if (reason.code == lanes::ReasonCode::none) return nullptr;
  std::string text = lanes::reason_text(reason, job.state == lanes::JobState::away);
  if (reason.code == lanes::ReasonCode::quarantined && facts.blame) {
    text += " What happened: " + *facts.blame + ".";
  }
  return {{"code", lanes::reason_code_name(reason.code)},
          {"text", std::move(text)},
          {"numbers",
           {{"persistent_bytes", reason.persistent.count()},
            {"region_bytes", reason.region.count()},
            {"capacity_bytes", reason.capacity.count()},
            {"claimed_bytes", reason.claimed.count()},
            {"largest_free_bytes", reason.largest_free.count()},
            {"position", reason.position},
            {"lane", id_or_null(reason.lane)},
            {"behind_job", id_or_null(reason.behind)}}}};
}

// Where the image is. While it moves, `moved_bytes` of it are there.
Json image_json(const lanes::JobStatus& job, const JobFacts& facts) {
  using lanes::JobState;
  const bool moves = job.arriving || job.state == JobState::staged ||
                     job.state == JobState::restoring || job.state == JobState::evicting;
  const Bytes moved = std::min(facts.moved, job.persistent);
  return {{"pool_bytes", job.pool_bytes.count()},
          {"store_bytes", job.store_bytes.count()},
          {"spill_bytes", job.spill_bytes.count()},
          {"moved_bytes", moves ? Json(moved.count()) : Json(nullptr)},
          {"clean", job.clean},
          {"arriving", job.arriving},
          {"pinned", job.pinned}};
}

// Whole seconds stay whole.
double seconds_of(Duration duration) { return static_cast<double>(duration.ns()) / 1e9; }

Json told_json(Duration told) {
  if (told <= Duration()) return nullptr;
  return seconds_of(told);
}

// By how much it will be missed, by what the policy knows.
Json late_json(const lanes::JobStatus& job) {
  if (!job.late) return nullptr;
  return seconds_of(*job.late);
}

// Below 0: its iterations should have been done.
Json deadline_left_json(const lanes::JobStatus& job, TimePoint now) {
  if (job.options.deadline <= Duration()) return nullptr;
  return seconds_of(job.options.deadline - (now - job.offered_at));
}

Json waiting_json(const lanes::JobStatus& job, TimePoint now) {
  if (!job.waiting_since) return nullptr;
  return std::max(seconds_of(now - *job.waiting_since), 0.0);
}

Json since_json(const std::optional<TimePoint>& then, TimePoint now) {
  if (!then) return nullptr;
  return std::max(seconds_of(now - *then), 0.0);
}

// What the core knows of its iterations is from its last turn.
bool is_running(const lanes::JobStatus& job) {
  return job.state == lanes::JobState::running || job.state == lanes::JobState::paused;
}

// `wait`: until there is likely to be room.
Json job_line(const lanes::JobStatus& job, const JobFacts& facts, std::optional<Duration> wait,
              TimePoint now) {
  const bool outside = job.state == lanes::JobState::waiting || job.state == lanes::JobState::away;
  const bool waits = outside && job.reason.position > 0;
  const uint64_t total = job.options.total_iterations;
  return {{"id", job.id.value()},
          {"name", job.options.name},
          {"user", facts.user},
          {"class", job_class_name(job.options.job_class)},
          {"priority", job.options.priority},
          {"weight", job.options.weight},
          {"state", lanes::job_state_name(job.state)},
          {"lane", id_or_null(job.lane)},
          {"persistent_bytes", job.persistent.count()},
          {"ephemeral_bytes", job.ephemeral.count()},
          {"image", image_json(job, facts)},
          {"iterations", job.iterations},
          {"device_time_s", job.device_time.seconds()},
          {"pauses", job.pauses},
          {"paused_s", job.paused.seconds()},
          {"abandoned", job.abandoned},
          {"reason", reason_json(job, facts)},
          {"position", waits ? Json(job.reason.position) : Json(nullptr)},
          {"wait_estimate_s", wait ? Json(wait->seconds()) : Json(nullptr)},
          {"total_iterations", total > 0 ? Json(total) : Json(nullptr)},
          {"iteration_s", told_json(job.options.iteration_time)},
          {"deadline_s", told_json(job.options.deadline)},
          {"deadline_left_s", deadline_left_json(job, now)},
          {"deadline_missed_by_s", late_json(job)},
          {"waiting_s", waiting_json(job, now)},
          {"client_torch", text_or_null(facts.client_torch)},
          {"since_first_iteration_s", since_json(job.first_iteration, now)},
          {"since_last_iteration_s",
           is_running(job) ? Json(nullptr) : since_json(job.last_iteration, now)}};
}

int64_t claimed(const lanes::Snapshot& snapshot, memory::ClaimClass claim_class) {
  return snapshot.claimed_by_class[static_cast<size_t>(claim_class)].count();
}

Json pool_json(const ServiceFacts& service, const lanes::Snapshot& snapshot) {
  const int64_t persistent = claimed(snapshot, memory::ClaimClass::persistent);
  const int64_t regions = claimed(snapshot, memory::ClaimClass::region);
  return {
      {"capacity_bytes", snapshot.capacity.count()},
      {"wanted_bytes", snapshot.wanted_capacity.count()},
      {"made_bytes", service.pool_made.count()},
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

Json recovery_json(const std::optional<wire::RecoveryFacts>& recovery) {
  if (!recovery) return nullptr;
  return {{"capacity_bytes", recovery->capacity.count()}, {"used_bytes", recovery->used.count()}};
}

Json outside_json(const lanes::Snapshot::Outside& tier) {
  if (tier.capacity == Bytes()) return nullptr;
  return {{"capacity_bytes", tier.capacity.count()},
          {"used_bytes", tier.used.count()},
          {"promised_bytes", tier.claimed.count()},
          {"stalls", tier.stalls}};
}

JobFacts facts_of(const ServiceFacts& service, JobId job) {
  const auto found = std::lower_bound(service.jobs.begin(), service.jobs.end(), job,
                                      [](const JobFacts& a, JobId id) { return a.job < id; });
  const bool known = found != service.jobs.end() && found->job == job;
  return known ? *found : JobFacts{.job = job, .user = service.user};
}

Json torch_json(const TorchVersions& torch) {
  return {{"built", text_or_null(torch.built)}, {"running", text_or_null(torch.running)}};
}

Json count_or_null(const std::optional<uint32_t>& count) {
  return count ? Json(*count) : Json(nullptr);
}

Json workers_json(const std::vector<wire::WorkerFacts>& workers) {
  Json list = Json::array();
  for (const wire::WorkerFacts& worker : workers) {
    list.push_back({{"pid", worker.pid},
                    {"role", worker.role},
                    {"state", worker.state},
                    {"jobs_to_prepare", count_or_null(worker.jobs_to_prepare)},
                    {"jobs_prepared", count_or_null(worker.jobs_prepared)},
                    {"torch", torch_json(worker.torch)}});
  }
  return list;
}

Json policy_process_json(const std::optional<wire::PolicyProcessFacts>& process) {
  if (!process) return nullptr;
  return {{"state", process->is_running ? "running" : "stopped"},
          {"pid", process->pid ? Json(*process->pid) : Json(nullptr)},
          {"reason", text_or_null(process->reason)}};
}

Json tiers_json(const lanes::TierCounts& counts) {
  return {{"store", counts.store}, {"spill", counts.spill}};
}

Json deaths_json(const std::optional<wire::ServiceCounters>& counts) {
  if (!counts) return nullptr;
  return {{"active", counts->active_deaths},
          {"standby", counts->standby_deaths},
          {"policy", counts->policy_deaths},
          {"broker", counts->broker_deaths}};
}

// Refusals of codes that there were.
Json refusals_json(const lanes::Counters& counts) {
  Json codes = Json::object();
  for (size_t i = 0; i < counts.refusals.size(); ++i) {
    if (counts.refusals[i] == 0) continue;
    codes[lanes::reason_code_name(static_cast<lanes::ReasonCode>(i))] = counts.refusals[i];
  }
  return codes;
}

Json counters_json(const ServiceFacts& service, const lanes::Counters& counts) {
  return {
      {"turns", counts.turns},
      {"evictions", tiers_json(counts.evictions)},
      {"returns", tiers_json(counts.returns)},
      {"moved_bytes",
       {{"out", counts.moved_out.count()},
        {"in", counts.moved_in.count()},
        {"inside", counts.moved_inside.count()}}},
      {"refusals", refusals_json(counts)},
      {"deaths", deaths_json(service.counters)},
      {"lost_records", service.counters ? Json(service.counters->lost_records) : Json(nullptr)}};
}

Json limits_json(const std::vector<wire::LimitFacts>& limits) {
  const auto or_null = [](const std::optional<uint64_t>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json list = Json::array();
  for (const wire::LimitFacts& limit : limits) {
    Json users = Json::array();
    for (const auto& one : limit.users) {
      users.push_back({{"user", one.user}, {"used", one.used}});
    }
    list.push_back({{"name", limit.name},
                    {"used", or_null(limit.used)},
                    {"limit", or_null(limit.limit)},
                    {"user_limit", or_null(limit.per_user)},
                    {"of_operators", limit.of_operators},
                    {"key", text_or_null(limit.key)},
                    {"users", std::move(users)}});
  }
  return list;
}

Json lane_limit_json(const lanes::Snapshot& snapshot) {
  if (!snapshot.lane_limit) return nullptr;
  return {{"lanes", *snapshot.lane_limit}, {"trial", snapshot.lane_trial}};
}

Json jobs_json(const ServiceFacts& service, const lanes::Snapshot& snapshot) {
  const std::map<JobId, Duration> waits = lanes::estimate_waits(snapshot);
  Json jobs = Json::array();
  for (const auto* list : {&snapshot.jobs, &snapshot.ended}) {
    for (const lanes::JobStatus& job : *list) {
      const auto wait = waits.find(job.id);
      jobs.push_back(job_line(job, facts_of(service, job.id),
                              wait == waits.end() ? std::nullopt : std::optional(wait->second),
                              snapshot.now));
    }
  }
  return jobs;
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
  const Json status = {{"service",
                        {{"pid", service.pid},
                         {"version", service.version},
                         {"device", service.device},
                         {"kernels", service.kernels},
                         {"policy", snapshot.policy},
                         {"uptime_s", service.uptime_s},
                         {"policy_process", policy_process_json(service.policy_process)}}},
                       {"pool", pool_json(service, snapshot)},
                       {"store", outside_json(snapshot.store)},
                       {"spill", outside_json(snapshot.spill)},
                       {"recovery", recovery_json(service.recovery)},
                       {"workers", workers_json(service.workers)},
                       {"regions", std::move(regions)},
                       {"lanes", std::move(lanes_list)},
                       {"lane_limit", lane_limit_json(snapshot)},
                       {"jobs", jobs_json(service, snapshot)},
                       {"map", map_json(snapshot)},
                       {"counters", counters_json(service, snapshot.counters)},
                       {"limits", limits_json(service.limits)}};
  return status.dump();
}

std::string job_line_json(const lanes::Snapshot& snapshot, JobId id, const JobFacts& facts) {
  for (const auto* list : {&snapshot.jobs, &snapshot.ended}) {
    for (const lanes::JobStatus& job : *list) {
      if (job.id == id) return job_line(job, facts, std::nullopt, snapshot.now).dump();
    }
  }
  return "null";
}

}  // namespace laneway::service
