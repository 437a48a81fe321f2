// WorkerRequests: the requests about jobs that the broker has sent to the worker and that are not
// answered yet: additions (of a job, a graph, a link, a segment), so that a refusal finds its
// subject, and questions, whose answer is a client's. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "service/broker/job_entry.h"
#include "service/broker/job_table.h"
#include "service/broker/outbox.h"
#include "service/broker/replies.h"
#include "service/broker/worker_link.h"

namespace laneway::service {

class WorkerRequests {
 public:
  // Sent again after a restart of the worker.
  struct Question {
    ReplyTo to;  // nowhere: no client waits for the answer
    JobId job;
    uint32_t graph = 0;
    std::variant<wire::to_worker::DropGraph, wire::to_worker::DropLink,
                 wire::to_worker::DropSegment, wire::to_worker::JobReport,
                 wire::to_worker::ReleaseJob, wire::to_worker::SetResidency>
        message;

    // Something of the job is to go.
    bool drops() const {
      return drops_graph() || std::holds_alternative<wire::to_worker::DropLink>(message) ||
             std::holds_alternative<wire::to_worker::DropSegment>(message);
    }
    bool drops_graph() const { return std::holds_alternative<wire::to_worker::DropGraph>(message); }
  };

  // Both must outlive the object.
  WorkerRequests(WorkerLink& worker, JobTable& table) : worker_(worker), table_(table) {}

  // Each is an entry of the table, and made into a message when it is its turn to be sent, if it
  // is still there.
  void send_job(const JobEntry& job);
  void send_graph(const JobEntry& job, uint32_t number);
  void send_link(const JobEntry& job, uint32_t number);
  void send_segment(const JobEntry& job, uint32_t link, uint32_t segment);
  // Requires: job.closing.
  void send_close(const JobEntry& job);

  void ask(Question question);
  void ask_again();

  // The request that the worker has answered, which is then no longer pending; nothing when it is
  // none of this kind.
  std::optional<JobPart> take_addition(uint64_t request);
  std::optional<Question> take_question(uint64_t request);
  // All questions about the job, which are then no longer pending.
  std::vector<Question> take_questions(JobId job);
  // Answers to these additions are ignored.
  void forget_additions(JobId job);
  void forget_additions() { additions_.clear(); }

 private:
  using Letter = std::optional<Outbox::Letter>;
  // Nothing when it is not there any more; an error when a descriptor finds no copy.
  Result<Letter> letter(uint64_t request, const JobPart& part);
  void send(const JobPart& part);

  WorkerLink& worker_;
  JobTable& table_;
  std::map<uint64_t, JobPart> additions_;   // by request
  std::map<uint64_t, Question> questions_;  // by request
};

}  // namespace laneway::service
