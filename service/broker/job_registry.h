// JobRegistry: the jobs of the service: made, attached to, closed, held at the supervisor, told to
// the worker and offered to the core, and who waits for which of that. Requests come in checked as
// far as their own fields go (service/broker/requests); here is what they mean.
//
// Everything survives a new broker and a new worker the same way: what is held is said to the
// worker again, its report makes the core anew, and who still waits for an answer gets it then.
// Not thread-safe.
//
// Its parts: job_registry.cc (jobs), job_registry_parts.cc (graphs, links, segments),
// job_registry_worker.cc (answers of the worker), job_registry_recovery.cc (new broker, new
// worker). WorkerRequests has the requests to the worker that are not answered yet, JobStore what
// the supervisor holds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "lanes/core_loop.h"
#include "lanes/snapshot.h"
#include "service/broker/broker_core.h"
#include "service/broker/job_store.h"
#include "service/broker/job_table.h"
#include "service/broker/replies.h"
#include "service/broker/trace_log.h"
#include "service/broker/worker_link.h"
#include "service/broker/worker_requests.h"
#include "service/journal/journal_view.h"
#include "service/wire/client_messages.h"

namespace laneway::service {

class JobRegistry final : public lanes::ActionSink {
 public:
  // All outlive the registry; `core` is set before anything else is called.
  JobRegistry(DescriptorStore& store, WorkerLink& worker, Replies& replies, const Clock& clock)
      : store_(store), worker_(worker), requests_(worker), replies_(replies), clock_(clock) {}
  void set_core(BrokerCore& core) { core_ = &core; }
  // What the worker writes down, which outlives the registry as well; without it only turns that
  // have ended count.
  void set_journal(const JournalView& journal) { journal_ = &journal; }
  // Hears what the worker tells of iterations.
  void set_trace(TraceLog* trace) { trace_ = trace; }

  // ---- Requests. Each is answered through `to`, now or later; the same request again (same
  // number) is the same thing again.
  struct Origin {
    ReplyTo to;
    uint32_t user = 0;  // uid
  };
  void create(const Origin& from, const wire::CreateJob& request, std::vector<Descriptor> fds);
  void attach(const Origin& from, const wire::AttachJob& request);
  void add_graph(const Origin& from, const wire::AddGraph& request, std::vector<Descriptor> fds);
  void drop_graph(const Origin& from, const wire::DropGraph& request);
  void add_segment(const Origin& from, const wire::AddSegment& request,
                   std::vector<Descriptor> fds);
  void drop_segment(const Origin& from, const wire::DropSegment& request);
  void close(const Origin& from, const wire::CloseJob& request);
  void wait(const Origin& from, const wire::WaitJob& request);
  void report(const Origin& from, const wire::JobReport& request);
  // `may_all`: jobs of every user, else only those of one's own.
  void kill(const Origin& from, const wire::KillJob& request, bool may_all);

  // Its jobs end (as cancelled when it died, else as finished), its links to others' jobs go.
  void session_ended(SessionId session, bool died);
  // All jobs end, for this reason; nothing further is taken.
  void close_all(const Error& reason);
  bool empty() const { return table_.all().empty(); }

  // ---- The worker.
  void worker_connected(Channel channel);
  void worker_gone();
  // All that it says now.
  void read_worker();
  void carry_out(const std::vector<lanes::Action>& actions) override;

  // ---- A new broker. Keys and notes that make no sense are errors; nothing is changed then.
  Status restore(const std::string& key, const std::vector<uint8_t>& note,
                 std::vector<Descriptor> fds);
  // All was restored; jobs of other sessions than these end.
  void restored(const std::set<SessionId>& sessions);

  // ---- Time.
  void answer_waiters();
  TimePoint next_wakeup() const;

  const JobTable& table() const { return table_; }

  // The core's, with what jobs have run in turns that are still open (a job alone in its lane may
  // keep its turn for hours) and their pace between the times that this was asked.
  lanes::Snapshot snapshot();

 private:
  // What the session may speak of: its own job or one that it is attached to.
  Result<JobEntry*> job_of(const Origin& from, uint64_t job);
  Result<LinkEntry*> link_of(const Origin& from, JobEntry& job, uint32_t link);
  Error gone_error(uint64_t job, const Origin& from) const;
  Status check_room(const Origin& from) const;

  // job_registry.cc
  void end_job(JobEntry& job, const Error& told, bool cancelled);
  void resume(JobEntry& job, const Origin& from);
  void answer_created(JobEntry& job);
  void offer(JobEntry& job);
  // `job` is gone afterwards.
  void forget(JobEntry& job, std::optional<Error> why);
  void answer_all(JobEntry& job, const Error& told);
  void image_placed(JobEntry& job);
  wire::JobWaits waits(const JobEntry& job);

  // job_registry_parts.cc
  Result<uint32_t> make_link(JobEntry& job, const Origin& from);
  void answer_attached(JobEntry& job, uint32_t link);
  void detach(JobEntry& job, SessionId session, ReplyTo to);
  // One link alone; the session's graphs go with its last, unless it made the job.
  void detach_link(JobEntry& job, uint32_t number, ReplyTo to);
  void drop_link(JobEntry& job, uint32_t link, ReplyTo to);
  void drop_graphs_of(JobEntry& job, SessionId session);
  std::vector<Descriptor> link_copies(const LinkEntry& link);

  // job_registry_worker.cc: messages from the worker.
  void on(const wire::from_worker::Reply& message);
  void on(const wire::from_worker::JobAdded& message);
  void on(const wire::from_worker::GraphAdded& message);
  void on(const wire::from_worker::Events& message);
  void on(const wire::from_worker::JobGone& message);
  void on(const wire::from_worker::JobText& message);
  void on(const wire::from_worker::Report& message);
  void on(const wire::from_worker::Iterations& message);
  void on_event(const lanes::Event& event);
  void on_reply(const WorkerRequests::Addition& addition, const wire::from_worker::Reply& message);
  void on_reply(const WorkerRequests::Question& question, const wire::from_worker::Reply& message);

  // job_registry_recovery.cc
  void correct(lanes::WorkerReport& report);

  JobStore store_;
  WorkerLink& worker_;
  WorkerRequests requests_;
  Replies& replies_;
  const Clock& clock_;
  BrokerCore* core_ = nullptr;
  const JournalView* journal_ = nullptr;
  TraceLog* trace_ = nullptr;  // none: no trace is written
  JobTable table_;
  std::optional<Error> closed_;  // close_all was called
};

}  // namespace laneway::service
