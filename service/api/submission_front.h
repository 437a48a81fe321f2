// SubmissionFront: one submitted request behind laneway_submission, in whichever library of
// laneway.h. The C functions check handles; an implementation does the work. Thread-safe.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "service/api/laneway.h"

namespace laneway::service {

class SubmissionFront {
 public:
  SubmissionFront() = default;
  virtual ~SubmissionFront() = default;
  SubmissionFront(const SubmissionFront&) = delete;
  SubmissionFront& operator=(const SubmissionFront&) = delete;

  // The outcome of the request; nothing when `timeout` passed (negative: no limit; zero: only
  // look).
  virtual std::optional<Status> wait(Duration timeout) = 0;
  // Requires: wait() returned success. invalid_argument when number or sizes of `to` differ from
  // the outputs of the graph.
  virtual Status copy_outputs(std::span<const laneway_output> to) = 0;
  // Success when the request will not run; refused when it has begun or is done.
  virtual Status cancel() = 0;
};

}  // namespace laneway::service
