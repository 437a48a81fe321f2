// JobRegistry: the jobs of the service, from the request that makes one until nothing of it is
// left: made, offered to the core, placed, closed or killed, and known to each new broker and
// worker. Requests come in checked as far as their own fields go (service/broker/requests).
//
// Everything survives a new broker and a new worker the same way: what is held is sent to the
// worker again, its report makes the core anew, and who still waits for an answer gets it then. Not
// thread-safe.
//
// Its collaborators, each with its own contract: JobTable has the entries, JobStore what the
// supervisor holds of them, JobParts their graphs, links and segments, PlacementWaits who waits for
// their memory, JobProgress how far they are; WorkerRequests and WorkerReader are both ways of the
// talk with the worker. job_registry_recovery.cc has the new broker and the new worker.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "base/torch_version.h"
#include "lanes/core/core_loop.h"
#include "lanes/state/report.h"
#include "lanes/state/snapshot.h"
#include "service/broker/broker_core.h"
#include "service/broker/job_parts.h"
#include "service/broker/job_progress.h"
#include "service/broker/job_store.h"
#include "service/broker/job_table.h"
#include "service/broker/placement_waits.h"
#include "service/broker/quotas.h"
#include "service/broker/replies.h"
#include "service/broker/standbys.h"
#include "service/broker/trace_log.h"
#include "service/broker/worker_link.h"
#include "service/broker/worker_reader.h"
#include "service/broker/worker_requests.h"
#include "service/journal/journal_view.h"
#include "service/wire/client_messages.h"

namespace laneway::service {

class JobRegistry final : public lanes::ActionSink, private WorkerEvents {
 public:
  // All must outlive the registry.
  JobRegistry(DescriptorStore& store, WorkerLink& worker, Replies& replies, Quotas& quotas,
              const Clock& clock);
  // Must be called before anything else; the core must outlive the registry.
  void set_core(BrokerCore& core);
  // The worker's journal, which must outlive the registry (JobProgress).
  void set_journal(const JournalView& journal) { progress_.set_journal(journal); }
  void set_trace(TraceLog* trace) { reader_.set_trace(trace); }

  // ---- Requests. Each is answered, now or later; the same request again (same number) has the
  // same answer.
  void create(const Requester& from, const wire::CreateJob& request, std::vector<Descriptor> fds);
  void close(const Requester& from, const wire::CloseJob& request);
  void wait(const Requester& from, const wire::WaitJob& request);
  void report(const Requester& from, const wire::JobReport& request, bool may_all);
  // `may_all`: jobs of every user, else only those of one's own.
  void kill(const Requester& from, const wire::KillJob& request, bool may_all);
  void release(const Requester& from, const wire::ReleaseJob& request, bool may_all);
  void set_residency(const Requester& from, const wire::SetResidency& request, bool may_all);
  void set(const Requester& from, const wire::SetJob& request, bool may_all);
  // Takes the requests about graphs, links and segments.
  JobParts& parts() { return parts_; }

  // Its jobs end (as cancelled when it died, else as finished), its links to others' jobs go.
  void session_ended(SessionId session, bool died);
  // All jobs end, for this reason; nothing further is taken.
  void close_all(const Error& reason);
  bool empty() const { return table_.all().empty(); }

  // ---- The worker.
  void worker_connected(Channel channel, TorchVersions torch = {});
  void worker_gone();
  void begin_core_anew();  // from another report of the worker
  void read_worker() { reader_.read(); }
  void carry_out(const std::vector<lanes::Action>& actions) override;

  // ---- A new broker. Keys and notes that make no sense are errors; nothing is changed then.
  Status restore(const std::string& key, const std::vector<uint8_t>& note,
                 std::vector<Descriptor> fds);
  // All was restored; jobs of other sessions than these end.
  void restored(const std::set<SessionId>& sessions);

  // ---- What the supervisor could not hold.
  // This found no room: what it was for is undone, and its request refused. False: none of a job.
  bool hold_refused(uint64_t number, const Error& why);

  // ---- Time.
  void answer_waiters();
  TimePoint next_wakeup() const { return waits_.next_wakeup(); }

  const JobTable& table() const { return table_; }
  // What the standbys prepare of the jobs.
  Standbys& standbys() { return standbys_; }

  lanes::Snapshot snapshot() { return progress_.snapshot(); }
  const JobProgress& progress() const { return progress_; }

 private:
  void on_job_added(JobEntry& job) override;
  void on_job_refused(JobEntry& job, const Error& why) override;
  void on_job_gone(JobId job, const std::optional<Error>& why) override;
  void on_events(const std::vector<lanes::Event>& events) override;
  void on_report(lanes::WorkerReport report) override;

  // The one job of that number or name that the user may `act` on.
  Result<JobEntry*> find_named(const Requester& from, const std::string& name, bool may_all,
                               const char* act);
  // The job was created by a request that has come again.
  void resume(JobEntry& job, const Requester& from);
  void offer(JobEntry& job);
  // `reason` is what the job's clients get as error.
  void end_job(JobEntry& job, const Error& reason, bool cancelled);
  // `job` is gone afterwards.
  void forget(JobEntry& job, std::optional<Error> why);
  void answer_all(JobEntry& job, const Error& reason);
  void image_placed(JobEntry& job);

  // job_registry_recovery.cc
  void tell_all_again();
  void correct(lanes::WorkerReport& report);

  const Clock& clock_;
  JobTable table_;
  JobStore store_;
  WorkerLink& worker_;
  WorkerRequests requests_;
  Replies& replies_;
  Quotas& quotas_;
  BrokerCore* core_ = nullptr;
  Standbys standbys_;
  JobParts parts_;
  JobProgress progress_;
  PlacementWaits waits_;
  WorkerReader reader_;
  std::optional<Error> closed_;  // close_all was called
};

}  // namespace laneway::service
