// JobFront: a job behind laneway_job, in whichever library of laneway.h: a job of the service
// inside this process, or one that a running lanewayd has. The C functions check handles; an
// implementation does the work, and answers unavailable once the job or its service is closed.
// laneway.h has the contract of each operation. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/job_changes.h"
#include "base/result.h"
#include "base/time.h"
#include "service/api/job_form.h"
#include "service/api/laneway.h"
#include "service/api/submission_front.h"

namespace laneway::service {

class JobFront {
 public:
  using Submitted = Result<std::shared_ptr<SubmissionFront>>;

  JobFront() = default;
  virtual ~JobFront() = default;
  JobFront(const JobFront&) = delete;
  JobFront& operator=(const JobFront&) = delete;

  virtual Result<JobForm> form() = 0;
  // The number of the graph that was added.
  virtual Result<uint32_t> add_graph(std::span<const std::byte> graph) = 0;
  virtual Status drop_graph(uint32_t number) = 0;
  // Requires: check_job_changes.
  virtual Status set(const JobChanges& changes) = 0;
  // Success when the job has its memory, or why it gets none; nothing when `timeout` passed
  // (negative: no limit): *reason then has the position and the reason of the wait.
  virtual std::optional<Status> wait_placed(Duration timeout, std::string* reason) = 0;
  // JSON.
  virtual Result<std::string> report(bool with_tapes) = 0;
  // Ends the job, or only the handle's part of it when the handle was attached. Idempotent.
  virtual void close() = 0;

  // One iteration. Null when it is done and `outputs` are filled; else the queued iteration.
  virtual Submitted run(uint32_t graph, std::span<const laneway_input> inputs,
                        std::span<const laneway_output> outputs) = 0;
  // Queues one iteration; the inputs are copied. busy: limits::kMaxInFlight requests are not done
  // yet, see wait_for_room.
  virtual Submitted submit(uint32_t graph, std::span<const laneway_input> inputs) = 0;
  // Success when the job can take one more request, or why it takes none any more; nothing when
  // `timeout` passed (negative: no limit).
  virtual std::optional<Status> wait_for_room(Duration timeout) = 0;
  // An ordered access to the state. Null when it is done; else `copies` and what they point to
  // must stay until the access is done or the job is closed. `random_state` may be null.
  virtual Submitted read_state(std::span<const laneway_slot_copy> copies, void* random_state) = 0;
  virtual Submitted write_state(std::span<const laneway_slot_copy> copies,
                                const void* random_state) = 0;
};

}  // namespace laneway::service
