// JobParts: what belongs to jobs besides their image: graphs, links (one for each client of a job)
// and the links' segments: made, held, sent to the worker, answered, and dropped. Whether a job may
// begin or must end is not decided here. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "service/broker/job_store.h"
#include "service/broker/job_table.h"
#include "service/broker/quotas.h"
#include "service/broker/replies.h"
#include "service/broker/standbys.h"
#include "service/broker/worker_requests.h"
#include "service/transport/descriptor.h"
#include "service/wire/client_messages.h"
#include "service/wire/graph_info.h"

namespace laneway::service {

class JobParts {
 public:
  // All must outlive this object.
  JobParts(JobTable& table, JobStore& store, WorkerRequests& requests, Replies& replies,
           Standbys& standbys, Quotas& quotas)
      : table_(table),
        store_(store),
        requests_(requests),
        replies_(replies),
        standbys_(standbys),
        quotas_(quotas) {}

  // ---- Requests of clients. Each is answered, now or later; the same request again (same number)
  // has the same answer.
  void attach(const Requester& from, const wire::AttachJob& request);
  void add_graph(const Requester& from, const wire::AddGraph& request, std::vector<Descriptor> fds);
  void drop_graph(const Requester& from, const wire::DropGraph& request);
  void add_segment(const Requester& from, const wire::AddSegment& request,
                   std::vector<Descriptor> fds);
  void drop_segment(const Requester& from, const wire::DropSegment& request);

  // Makes and holds a link for the client of `from`; it is not sent yet. Returns its number;
  // refused when the job has limits::kMaxLinksPerJob, or no quota is left for its descriptors.
  Result<uint32_t> make_link(JobEntry& job, const Requester& from);
  // Drops one link of the session of `to`, and the session's graphs with its last one, unless the
  // session made the job. `to` is answered when the worker has dropped it.
  void drop_link(JobEntry& job, uint32_t number, ReplyTo to);
  // Drops all links and graphs of a session that attached to the job.
  void detach(JobEntry& job, SessionId session, ReplyTo to);

  // Answers who made the job, as soon as it is held, and worker and core both know it; or with its
  // refusal.
  void answer_created(JobEntry& job);

  // ---- What the supervisor answered.
  // Everything up to `number` was answered.
  void holds_done(uint64_t number);
  // It found no room for a graph, link or segment, which is undone.
  void on_hold_refused(JobEntry& job, const JobPart& part, const Error& why);
  // The link that was made with the job, without which its creator has nothing of it.
  static bool is_of_creator(const JobEntry& job, const JobPart& part);

  // ---- What the worker answered.
  void on_job_added(JobEntry& job);
  void on_graph_added(JobEntry& job, const wire::GraphInfo& info);
  // A graph, link or segment was added; with `refused`, it was not and is undone.
  void on_addition(JobEntry& job, const JobPart& added, const std::optional<Error>& refused);
  void on_graph_dropped(JobEntry& job, uint32_t number);

  // ---- A new worker: it gets all parts of the job; then, when it has all jobs, what was dropped
  // of them.
  void send_again(JobEntry& job);
  void drop_again(const JobEntry& job);

 private:
  // The link, when it is this session's.
  static Result<LinkEntry*> find_link(const Requester& from, JobEntry& job, uint32_t number);
  void on_held(JobEntry& job, const JobPart& part);
  // Each as soon as it is held, and the worker has it.
  void answer_attached(JobEntry& job, uint32_t number);
  void answer_graph(GraphEntry& graph);
  void answer_segment(SegmentEntry& segment);
  void release_link(JobEntry& job, uint32_t number, ReplyTo to);
  void release_segment(JobEntry& job, uint32_t link, uint32_t segment, ReplyTo to);
  void drop_graphs_of(JobEntry& job, SessionId session);
  void ask_to_drop_graph(const JobEntry& job, uint32_t number, ReplyTo to);

  JobTable& table_;
  JobStore& store_;
  WorkerRequests& requests_;
  Replies& replies_;
  Standbys& standbys_;
  Quotas& quotas_;
};

// The client's copies of a link's descriptors; none, with a line in the log, when the process has
// no descriptors left.
std::vector<Descriptor> client_copies(const LinkFiles& files);

}  // namespace laneway::service
