// Iterations and state of laneway.h over a JobFront. Compiled into both libraries.
#include <utility>

#include "service/api/c_border.h"
#include "service/api/c_handles.h"

using laneway::Duration;
using laneway::service::guarded;
using laneway::service::report;
namespace service_ns = laneway::service;

namespace {

laneway_submission* new_handle(std::shared_ptr<service_ns::SubmissionFront> submission) {
  return new laneway_submission{.front = std::move(submission), .owner = {}};
}

// LANEWAY_OK when the request is done already, else LANEWAY_PENDING with a handle of it.
int give(service_ns::JobFront::Submitted submitted, laneway_submission** pending,
         laneway_error* error) {
  if (!submitted) return report(error, submitted.error());
  if (submitted.value() == nullptr) return LANEWAY_OK;
  *pending = new_handle(std::move(submitted).value());
  return report(error, LANEWAY_PENDING, "the iteration is not done yet");
}

}  // namespace

extern "C" {

int laneway_run(laneway_job* job, uint32_t graph, const laneway_input* inputs, uint32_t input_count,
                const laneway_output* outputs, uint32_t output_count, laneway_submission** pending,
                laneway_error* error) {
  return guarded(job, error, [&] {
    return give(job->front->run(graph, {inputs, input_count}, {outputs, output_count}), pending,
                error);
  });
}

int laneway_submit(laneway_job* job, uint32_t graph, const laneway_input* inputs,
                   uint32_t input_count, laneway_submission** submission, laneway_error* error) {
  return guarded(job, error, [&] {
    auto submitted = job->front->submit(graph, {inputs, input_count});
    if (!submitted) return report(error, submitted.error());
    *submission = new_handle(std::move(submitted).value());
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_wait_for_room(laneway_job* job, int64_t timeout_ns, laneway_error* error) {
  return guarded(job, error, [&] {
    const auto room = job->front->wait_for_room(Duration(timeout_ns));
    if (!room) return report(error, LANEWAY_PENDING, "as many requests as before are not done yet");
    return report(error, *room);
  });
}

int laneway_wait(laneway_submission* submission, int64_t timeout_ns, const laneway_output* outputs,
                 uint32_t output_count, laneway_error* error) {
  return guarded(submission, error, [&] {
    const auto done = submission->front->wait(Duration(timeout_ns));
    if (!done) return report(error, LANEWAY_PENDING, "the iteration is not done yet");
    if (!*done || output_count == 0) return report(error, *done);
    return report(error, submission->front->copy_outputs({outputs, output_count}));
  });
}

int laneway_cancel(laneway_submission* submission, laneway_error* error) {
  return guarded(submission, error, [&] { return report(error, submission->front->cancel()); });
}

void laneway_submission_release(laneway_submission* submission) { service_ns::release(submission); }

int laneway_read_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                       void* random_state, laneway_submission** pending, laneway_error* error) {
  return guarded(job, error, [&] {
    return give(job->front->read_state({slots, count}, random_state), pending, error);
  });
}

int laneway_write_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                        const void* random_state, laneway_submission** pending,
                        laneway_error* error) {
  return guarded(job, error, [&] {
    return give(job->front->write_state({slots, count}, random_state), pending, error);
  });
}

}  // extern "C"
