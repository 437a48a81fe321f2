// WorkerReader: reads the worker's messages: finds the request that an answer belongs to, checks
// that an event is the worker's to report, and hands on what each message says. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/torch_version.h"
#include "lanes/state/event.h"
#include "lanes/state/report.h"
#include "service/broker/job_parts.h"
#include "service/broker/job_progress.h"
#include "service/broker/job_table.h"
#include "service/broker/replies.h"
#include "service/broker/trace_log.h"
#include "service/broker/worker_link.h"
#include "service/broker/worker_requests.h"
#include "service/wire/worker_messages.h"

namespace laneway::service {

// What the worker says of whole jobs. Called by WorkerReader, inside read() alone.
class WorkerEvents {
 public:
  virtual ~WorkerEvents() = default;
  // The worker has the job; what it needs stands in the entry.
  virtual void on_job_added(JobEntry& job) = 0;
  // The worker has nothing of the job.
  virtual void on_job_refused(JobEntry& job, const Error& why) = 0;
  // Nothing of the job is left at the worker, which gives `why` when the job failed. The job need
  // not be in the table.
  virtual void on_job_gone(JobId job, const std::optional<Error>& why) = 0;
  // Of one instant, in the order in which the worker sent them.
  virtual void on_events(const std::vector<lanes::Event>& events) = 0;
  // The worker's answer to all that a new worker, or a new broker, begins with.
  virtual void on_report(lanes::WorkerReport report) = 0;
};

class WorkerReader {
 public:
  // All must outlive this object.
  struct Parties {
    WorkerLink& worker;
    WorkerRequests& requests;
    JobTable& table;
    JobParts& parts;
    JobProgress& progress;
    Replies& replies;
    WorkerEvents& events;
  };
  explicit WorkerReader(const Parties& parties) : to_(parties) {}
  // Gets the iterations that the worker reports; null, or must outlive this object.
  void set_trace(TraceLog* trace) { trace_ = trace; }
  // That of the worker that is read from now on.
  void set_torch(TorchVersions torch) { torch_ = std::move(torch); }

  // All messages that are there now. Events that no request's answer parts are those of one
  // instant.
  void read();

 private:
  void on(const wire::from_worker::Reply& message);
  void on(const wire::from_worker::JobAdded& message);
  void on(const wire::from_worker::GraphAdded& message);
  void on(const wire::from_worker::Events& message);
  void on(const wire::from_worker::JobGone& message);
  void on(const wire::from_worker::JobText& message);
  void on(const wire::from_worker::Report& message);
  void on(const wire::from_worker::Iterations& message);
  void on_reply(const JobPart& added, const wire::from_worker::Reply& message);
  void on_reply(const WorkerRequests::Question& question, const wire::from_worker::Reply& message);

  Error with_torch(const wire::from_worker::Reply& message, const std::string& client) const;
  void hand_events_on();

  const Parties to_;
  TorchVersions torch_;
  std::vector<lanes::Event> events_;  // that were read, and not handed on yet
  TraceLog* trace_ = nullptr;         // none: no trace is written
};

}  // namespace laneway::service
