// Iterations and state of laneway.h over the ring of a job.
#include <string>
#include <utility>

#include "service/api/c_border.h"
#include "service/api/laneway.h"
#include "service/client/client_handles.h"

using laneway::Duration;
using laneway::Result;
using laneway::service::guarded;
using laneway::service::report;
namespace service_ns = laneway::service;

namespace {

using SubmissionHandle = service_ns::ClientJob::SubmissionHandle;

// What a call may wait for on its own: its caller then hears something else (Ctrl-C).
constexpr Duration kAtOnce = laneway::milliseconds(50);

laneway_submission* new_handle(SubmissionHandle submission) {
  return new laneway_submission{.submission = std::move(submission), .owner = {}};
}

// The outcome of what was submitted if it comes at once, else a handle of it.
int settle(Result<SubmissionHandle> submitted, std::span<const laneway_output> outputs,
           laneway_submission** pending, laneway_error* error) {
  if (!submitted) return report(error, submitted.error());
  const auto done = submitted.value()->wait(kAtOnce);
  if (!done) {
    *pending = new_handle(std::move(submitted).value());
    return report(error, LANEWAY_PENDING, "the iteration is not done yet");
  }
  if (!*done || outputs.empty()) return report(error, *done);
  return report(error, submitted.value()->copy_outputs(outputs));
}

}  // namespace

extern "C" {

int laneway_run(laneway_job* job, uint32_t graph, const laneway_input* inputs, uint32_t input_count,
                const laneway_output* outputs, uint32_t output_count, laneway_submission** pending,
                laneway_error* error) {
  return guarded(job, error, [&] {
    const std::span<const laneway_output> room(outputs, output_count);
    return settle(job->job->submit(graph, {inputs, input_count}, room), room, pending, error);
  });
}

int laneway_submit(laneway_job* job, uint32_t graph, const laneway_input* inputs,
                   uint32_t input_count, laneway_submission** submission, laneway_error* error) {
  return guarded(job, error, [&] {
    auto submitted = job->job->submit(graph, {inputs, input_count});
    if (!submitted) return report(error, submitted.error());
    *submission = new_handle(std::move(submitted).value());
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_wait(laneway_submission* submission, int64_t timeout_ns, const laneway_output* outputs,
                 uint32_t output_count, laneway_error* error) {
  return guarded(submission, error, [&] {
    const auto done = submission->submission->wait(Duration(timeout_ns));
    if (!done) return report(error, LANEWAY_PENDING, "the iteration is not done yet");
    if (!*done || output_count == 0) return report(error, *done);
    return report(error, submission->submission->copy_outputs({outputs, output_count}));
  });
}

int laneway_cancel(laneway_submission* submission, laneway_error* error) {
  return guarded(submission, error, [&] {
    if (submission->submission->cancel()) return static_cast<int>(LANEWAY_OK);
    return report(error, LANEWAY_REFUSED, "the iteration has begun or is done; wait for it");
  });
}

void laneway_submission_release(laneway_submission* submission) { service_ns::release(submission); }

int laneway_read_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                       void* random_state, laneway_submission** pending, laneway_error* error) {
  return guarded(job, error, [&] {
    return settle(job->job->read_state({slots, count}, random_state), {}, pending, error);
  });
}

int laneway_write_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                        const void* random_state, laneway_submission** pending,
                        laneway_error* error) {
  return guarded(job, error, [&] {
    return settle(job->job->write_state({slots, count}, random_state), {}, pending, error);
  });
}

}  // extern "C"
