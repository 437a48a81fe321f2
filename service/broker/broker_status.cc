// Broker: what it says of itself and of its service to whoever asks for a status.
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "base/version.h"
#include "service/broker/broker.h"
#include "service/broker/user_names.h"

namespace laneway::service {
namespace {

namespace to_broker = wire::supervisor_to_broker;

double seconds_since(int64_t unix_ns) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const double then = static_cast<double>(unix_ns) * 1e-9;
  return std::max(0.0,
                  static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - then);
}

const char* state_name(wire::WorkerState state) {
  switch (state) {
    case wire::WorkerState::starting: return "starting";
    case wire::WorkerState::ready: return "ready";
    case wire::WorkerState::lost: return "lost";
  }
  return "unknown";
}

}  // namespace

wire::WorkerFacts Broker::facts_of(const to_broker::WorkerUp& worker) {
  const bool active = worker.role == wire::WorkerRole::active;
  wire::WorkerFacts facts{.pid = worker.pid,
                          .role = active ? "active" : "standby",
                          .state = state_name(worker.state),
                          .torch = worker.torch};
  if (const auto preparation = registry_.standbys().preparation(worker.pid)) {
    facts.jobs_to_prepare = preparation->jobs;
    facts.jobs_prepared = preparation->prepared;
  }
  return facts;
}

std::vector<wire::LimitFacts> Broker::limit_facts() const {
  std::vector<wire::LimitFacts> all = quotas_.facts();
  // Workers hold graphs against these, each for itself.
  wire::LimitFacts graphs{.name = "graph_bytes", .key = "graph-memory"};
  if (config_.graph_bytes > 0) {
    graphs.limit = config_.graph_bytes;
    graphs.per_user = config_.graph_bytes / 2;
  }
  wire::LimitFacts threads{.name = "iteration_threads", .key = "max-threads"};
  if (config_.max_threads > 0) threads.limit = config_.max_threads;
  all.push_back(std::move(graphs));
  all.push_back(std::move(threads));
  return all;
}

wire::StatusReply Broker::status(bool with_ended) {
  wire::StatusReply reply{.service = {.pid = supervisor_pid_,
                                      .version = version(),
                                      .device = config_.device,
                                      .kernels = config_.kernels,
                                      .user = user_name(::geteuid()),
                                      .uptime_s = seconds_since(started_unix_ns_),
                                      .pool_made = Bytes(static_cast<int64_t>(config_.pool_bytes)),
                                      .policy_process = policy_.facts()},
                          .core = registry_.snapshot()};
  if (!with_ended) reply.core.ended.clear();
  if (config_.recovery_bytes > 0 && journal_ != nullptr) {
    reply.service.recovery = {.capacity = Bytes(static_cast<int64_t>(config_.recovery_bytes)),
                              .used = journal_->recovery_used()};
  }
  for (const auto& [pid, worker] : workers_) reply.service.workers.push_back(facts_of(worker));
  reply.service.counters = counters_.counts(lost_records());
  reply.service.jobs = registry_.progress().facts(reply.core.ended);
  reply.service.limits = limit_facts();
  return reply;
}

}  // namespace laneway::service
