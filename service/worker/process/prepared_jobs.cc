#include "service/worker/process/prepared_jobs.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "adaptor/scope/thread_team.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "lanes/graph/graph_codec.h"
#include "service/supervisor/machine_memory.h"
#include "service/worker/common/limits.h"
#include "service/worker/process/dry_run.h"
#include "service/worker/process/graph_file.h"

namespace laneway::service {
namespace {

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Memory that nobody misses for as long as a graph runs.
Bytes scratch_limit() {
  const auto memory = MachineMemory::read();
  return memory ? std::min(limits::kMostScratch, Bytes(memory.value().free.count() / 2)) : Bytes();
}

}  // namespace

void PreparedJobs::begin_anew() {
  post([this] {
    for (auto& [id, job] : jobs_) job.named = false;
  });
}

void PreparedJobs::handle(wire::to_standby::Any message, std::vector<Descriptor> fds,
                          Answer answer) {
  // What std::function holds can be copied, which descriptors cannot.
  auto with = std::make_shared<std::vector<Descriptor>>(std::move(fds));
  post([this, with, any = std::move(message), to = std::move(answer)] {
    fault_point("worker.preparing");
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { prepare(one, *with); }) {
            wire::from_standby::Prepared done;
            done.job = one.job;
            if constexpr (requires { one.number; }) done.number = one.number;
            try {
              done.ok = prepare(one, *with);
            } catch (const std::exception& thrown) {
              log_warning(std::string("a standby cannot prepare a job: ") + thrown.what());
              done.ok = false;
            }
            if (!stopped_) to(done);
          } else {
            on(one);
          }
        },
        any);
  });
}

void PreparedJobs::post(std::function<void()> task) {
  thread_.post([this, what = std::move(task)] {
    if (stopped_) return;
    if (thread_id_ == 0) lower_priority();
    what();
  });
}

void PreparedJobs::lower_priority() {
  sched_param none{};
  if (::sched_setscheduler(0, SCHED_IDLE, &none) != 0) {
    log_info("a standby prepares at the usual priority: the system refuses a lower one");
  }
  thread_id_ = ::gettid();
}

void PreparedJobs::stop() {
  stopped_ = true;
  word_.set(lanes::control::kCancel);
  // Somebody waits for what is under way. Not every system lets a thread have its priority back.
  sched_param none{};
  if (const pid_t thread = thread_id_; thread != 0) {
    (void)::sched_setscheduler(thread, SCHED_OTHER, &none);
  }
}

bool PreparedJobs::wait_stopped(Duration most) { return thread_.wait_idle_for(most); }

bool PreparedJobs::prepare(const wire::to_standby::PrepareJob& message,
                           std::vector<Descriptor>& fds) {
  if (fds.size() != 1) return false;
  auto graph = read_graph(std::move(fds[0]));
  if (!graph) return false;
  const JobId id(message.job);
  if (const auto known = jobs_.find(id); known != jobs_.end()) {
    known->second.named = true;
    if (known->second.slots == message.slots &&
        same_bytes(known->second.first.bytes, graph.value())) {
      return true;
    }
    jobs_.erase(known);
  }
  auto made = graphs_.make_job(backend_, message.slots, graph.value(), usable_);
  if (!made) return false;
  Job& job = jobs_[id];
  job.slots = message.slots;
  GraphCache::Job& fresh = made.value();
  job.first = {.bytes = std::move(graph).value(),
               .graph = {.made = std::move(fresh.made.graph), .origin = std::move(fresh.origin)}};
  job.job = std::move(fresh.made.job);
  warm(job, *job.first.graph.made);
  return true;
}

bool PreparedJobs::prepare(const wire::to_standby::PrepareGraph& message,
                           std::vector<Descriptor>& fds) {
  const auto found = jobs_.find(JobId(message.job));
  if (fds.size() != 1 || found == jobs_.end()) return false;
  auto bytes = read_graph(std::move(fds[0]));
  if (!bytes) return false;
  Job& job = found->second;
  const auto known = job.further.find(message.number);
  if (known != job.further.end() && same_bytes(known->second.bytes, bytes.value())) return true;
  const Bytes image = std::max(job.job->layout().total(), Bytes(backend_.alignment()));
  auto made = graphs_.make_graph(*job.job, bytes.value(), usable_ - image);
  if (!made) return false;
  Graph& graph = job.further[message.number];
  graph = {.bytes = std::move(bytes).value(), .graph = std::move(made).value()};
  warm(job, *graph.graph.made);
  return true;
}

void PreparedJobs::on(const wire::to_standby::ForgetGraph& message) {
  const auto found = jobs_.find(JobId(message.job));
  if (found != jobs_.end()) found->second.further.erase(message.number);
}

void PreparedJobs::on(const wire::to_standby::ForgetJob& message) {
  jobs_.erase(JobId(message.job));
}

void PreparedJobs::on(const wire::to_standby::Settle& /*message*/) {
  std::erase_if(jobs_, [](const auto& entry) { return !entry.second.named; });
  map_pages();
}

void PreparedJobs::warm(Job& job, adaptor::DeviceGraph& graph) {
  dry_run(backend_, *job.job, graph, scratch_limit(), word_);
  // Threads of two lanes and of this one would hinder each other once the worker is active.
  adaptor::end_thread_team();
}

// Only pages that there are: a page that nobody wrote would take memory by being looked at.
void PreparedJobs::map_pages() const {
  if (pool_ == nullptr || !backend_.device().capabilities().pool_is_addressable) return;
  const off_t size = pool_->size().count();
  off_t at = 0;
  while (at < size && !stopped_) {
    const off_t from = ::lseek(pool_->descriptor(), at, SEEK_DATA);
    if (from < 0) return;  // no further ones
    const off_t hole = ::lseek(pool_->descriptor(), from, SEEK_HOLE);
    const off_t to = std::min({hole < 0 ? size : hole, size, from + limits::kMapAtOnce.count()});
    // Without the system's help they are mapped when they are used.
    if (::madvise(pool_->data() + from, static_cast<size_t>(to - from), MADV_POPULATE_READ) != 0) {
      return;
    }
    at = to;
  }
}

std::optional<GraphCache::Job> PreparedJobs::take_job(JobId id, const std::vector<ImageSlot>& slots,
                                                      std::span<const std::byte> graph) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return std::nullopt;
  Job& job = found->second;
  if (job.job == nullptr || job.slots != slots || !same_bytes(job.first.bytes, graph)) {
    jobs_.erase(found);
    return std::nullopt;
  }
  GraphCache::Graph& first = job.first.graph;
  return GraphCache::Job{.made = {.job = std::move(job.job), .graph = std::move(first.made)},
                         .origin = std::move(first.origin)};
}

std::optional<GraphCache::Graph> PreparedJobs::take_graph(JobId id, uint32_t number,
                                                          std::span<const std::byte> graph) {
  const auto found = jobs_.find(id);
  // Graphs belong to the job that was taken.
  if (found == jobs_.end() || found->second.job != nullptr) return std::nullopt;
  auto& others = found->second.further;
  const auto further = others.find(number);
  if (further == others.end()) return std::nullopt;
  if (!same_bytes(further->second.bytes, graph)) return std::nullopt;
  GraphCache::Graph taken = std::move(further->second.graph);
  others.erase(further);
  return taken;
}

}  // namespace laneway::service
