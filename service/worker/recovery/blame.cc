#include "service/worker/recovery/blame.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "service/worker/common/crash_notes.h"
#include "service/worker/common/limits.h"

namespace laneway::service {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

// Deaths in a row, at one request of a job, until it runs alone; one more, and it is not run.
constexpr uint32_t kMaxOutOfMemory = 3;

std::string node_text(const WorkerJob& job, uint32_t graph, uint32_t node)
    LW_REQUIRES(kBookkeeping) {
  if (node == kNoNode) return "no node, while its image was placed, or its state copied or kept";
  const auto found = job.graphs.find(graph);
  if (found == job.graphs.end()) {
    return "node " + std::to_string(node) + " of graph " + std::to_string(graph);
  }
  const lanes::Graph& captured = found->second->torch->graph();
  std::string text =
      "node " + std::to_string(node) + " of graph '" + printable(captured.name) + "'";
  if (node >= captured.nodes.size()) return text;
  text += " (" + printable(captured.nodes[node].op);
  if (!captured.nodes[node].source.empty()) text += ", " + escaped(captured.nodes[node].source);
  return text + ")";
}

std::string what_happened(uint32_t signal) {
  if (signal == 0) return "hung";
  if (signal == kNotedExit) return "ended its process by exit()";
  const char* const name = ::sigabbrev_np(static_cast<int>(signal));
  return "crashed with " +
         (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal));
}

// What the lanes of the dead worker were at.
struct AtWork {
  JobHandle job;
  uint32_t graph = 0;
  uint32_t node = 0;
};

std::vector<AtWork> at_work(WorkerContext& context, WorkerJobs& jobs) LW_REQUIRES(kBookkeeping) {
  std::vector<AtWork> all;
  for (size_t number = 0; number < kNoted; ++number) {
    const LaneNotes& notes = context.journal->notes(number);
    if (static_cast<LaneDoing>(notes.doing.load(relaxed)) == LaneDoing::nothing) continue;
    JobHandle job = jobs.get(JobId(notes.job.load(relaxed)));
    if (job == nullptr || !job->journal || job->journal->is_over()) continue;
    all.push_back({std::move(job), notes.graph.load(relaxed), notes.node.load(relaxed)});
  }
  return all;
}

// Memory is what all processes of the machine take together, so no single death says whose fault it
// was. A request at which it runs out again and again runs alone; if it does so then too, it is the
// job's.
void blame_for_memory(WorkerContext& context, WorkerJobs& jobs) LW_REQUIRES(kBookkeeping) {
  const std::vector<AtWork> all = at_work(context, jobs);
  for (const AtWork& each : all) {
    const uint32_t times = each.job->journal->count_out_of_memory();
    const std::string what = "the machine's memory ran out " + std::to_string(times) +
                             " times in a row while job '" + printable(each.job->name) +
                             "' was at " + node_text(*each.job, each.graph, each.node);
    log_error("the worker before this one was killed: " + what);
    if (times < kMaxOutOfMemory) continue;
    const bool for_good = times > kMaxOutOfMemory && all.size() == 1;
    each.job->journal->blame_once(for_good ? what + ", the last time with nothing beside it" : what,
                                  for_good);
  }
}

}  // namespace

void blame_for_death(WorkerContext& context, WorkerJobs& jobs) {
  if (context.journal == nullptr) return;
  if (context.journal->take_out_of_memory()) blame_for_memory(context, jobs);
  for (size_t number = 0; number < kNoted; ++number) {
    LaneNotes& notes = context.journal->notes(number);
    const uint32_t signal = notes.signal.exchange(0, std::memory_order_acq_rel);
    const bool hung = notes.hung.exchange(0, std::memory_order_acq_rel) != 0;
    const auto doing = static_cast<LaneDoing>(notes.doing.load(relaxed));
    if ((signal == 0 && !hung) || doing == LaneDoing::nothing) continue;
    const JobHandle job = jobs.get(JobId(notes.job.load(relaxed)));
    if (job == nullptr || !job->journal || job->journal->is_over()) continue;
    const uint32_t graph = notes.graph.load(relaxed);
    const uint32_t node = notes.node.load(relaxed);
    const std::string what = "job '" + printable(job->name) + "' " + what_happened(signal) +
                             " at " + node_text(*job, graph, node);
    log_error("the worker before this one ended: " + what);
    job->journal->blame(what, graph, node);
  }
}

std::optional<Error> quarantine_of(const WorkerJob& job) {
  const JobJournal& journal = *job.journal;
  const auto blamed = journal.blamed();
  if (!blamed || !journal.died_of_it()) return {};
  const std::string now =
      "its iterations are not run any more, its state can be read with state_dict()";
  const std::string again =
      "; `laneway release " + std::to_string(job.id.value()) + "` tries the job again";
  if (journal.ran_out_of_memory()) {
    return Error{ErrorCode::quarantined, *blamed + ", and the kernel killed the worker; " + now +
                                             "; free memory on the machine, or make the job's "
                                             "batch smaller" +
                                             again};
  }
  return Error{ErrorCode::quarantined,
               *blamed + ", " + std::to_string(journal.suspicions()) +
                   " times, and brought its worker down each time; " + now +
                   "; run the same in plain PyTorch to find out what crashes" + again};
}

Status release_from_quarantine(WorkerContext& context, const JobHandle& job) {
  {
    const BookkeepingLock lock(context.mutex);
    // It runs no iterations, so it is idle again soon.
    while (job->quarantined && job->running) context.mutex.wait(job->changed);
    if (!job->quarantined) {
      // The worker that released it died before it answered.
      if (job->journal && job->journal->died_of_it() && job->journal->is_suspect()) return {};
      return Error{ErrorCode::refused, "job '" + job->name +
                                           "' is not quarantined: there is nothing to release it "
                                           "from"};
    }
    job->journal->release_from_quarantine();
    fault_point("worker.job_released");
    job->quarantined.reset();
    job->suspected = limits::kSuspectIterations;
  }
  log_info("job '" + printable(job->name) + "' is tried again: it was released from quarantine");
  context.events.post(lanes::JobReleased{.job = job->id});
  return {};
}

bool is_beyond_quarantine(const WorkerJob& job) {
  return job.journal->died_of_it() && job.journal->suspicions() > kMaxSuspicions;
}

}  // namespace laneway::service
