// Iterations and state of laneway.h over the worker of an EmbeddedService.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/api/c_border.h"
#include "service/api/job_form.h"
#include "service/api/laneway.h"
#include "service/embedded/handles.h"

using laneway::Bytes;
using laneway::Duration;
using laneway::Error;
using laneway::ErrorCode;
using laneway::Result;
using laneway::Status;
using laneway::lanes::InputView;
using laneway::lanes::OutputView;
using laneway::service::guarded;
using laneway::service::report;
using laneway::service::SlotPlaces;
namespace service_ns = laneway::service;

namespace {

// The C structs have the layout of the views.
static_assert(sizeof(laneway_input) == sizeof(InputView));
static_assert(offsetof(laneway_input, real) == offsetof(InputView, real));
static_assert(offsetof(laneway_input, integer) == offsetof(InputView, integer));
static_assert(sizeof(laneway_output) == sizeof(OutputView));

std::span<const InputView> as_views(const laneway_input* inputs, uint32_t count) {
  return {reinterpret_cast<const InputView*>(inputs), count};
}

std::span<const OutputView> as_views(const laneway_output* outputs, uint32_t count) {
  return {reinterpret_cast<const OutputView*>(outputs), count};
}

// The job's graph of this number, if its iteration may be queued or run with these inputs.
Result<service_ns::GraphHandle> find_callable(laneway_job* job, uint32_t number,
                                              std::span<const laneway_input> inputs) {
  Result<service_ns::GraphHandle> found = job->service->worker().find_graph(*job->job, number);
  if (!found) return found;
  if (Status fit = service_ns::check_inputs(found.value()->info, inputs); !fit) return fit.error();
  return found;
}

laneway_submission* new_submission(const laneway_job& job, std::shared_ptr<service_ns::Work> work) {
  return new laneway_submission{
      .work = std::move(work), .service = job.service, .job = job.job, .owner = {}};
}

// Queues or runs an access to the state of `job`.
int access_state(laneway_job* job, service_ns::StateAccess access, bool writes,
                 laneway_submission** pending, laneway_error* error) {
  auto work = std::make_shared<service_ns::Work>(std::move(access), writes);
  if (Status queued = job->service->worker().access_state(job->job, work); !queued) {
    return report(error, queued);
  }
  if (const auto done = work->wait(Duration())) return report(error, *done);
  *pending = new_submission(*job, std::move(work));
  return LANEWAY_PENDING;
}

}  // namespace

extern "C" {

int laneway_run(laneway_job* job, uint32_t graph, const laneway_input* inputs, uint32_t input_count,
                const laneway_output* outputs, uint32_t output_count, laneway_submission** pending,
                laneway_error* error) {
  return guarded(job, error, [&] {
    const auto found = find_callable(job, graph, {inputs, input_count});
    if (!found) return report(error, found.error());
    // Outputs that do not fit would only be noticed behind the commit phase.
    const Status fit = service_ns::check_outputs(found.value()->info, {outputs, output_count});
    if (!fit) return report(error, fit);
    const auto done = job->service->worker().try_run(
        *job->job, *found.value(), as_views(inputs, input_count), as_views(outputs, output_count));
    if (done) return report(error, *done);
    const int queued = laneway_submit(job, graph, inputs, input_count, pending, error);
    return queued == LANEWAY_OK ? static_cast<int>(LANEWAY_PENDING) : queued;
  });
}

int laneway_submit(laneway_job* job, uint32_t graph, const laneway_input* inputs,
                   uint32_t input_count, laneway_submission** submission, laneway_error* error) {
  return guarded(job, error, [&] {
    auto found = find_callable(job, graph, {inputs, input_count});
    if (!found) return report(error, found.error());
    auto work =
        std::make_shared<service_ns::Work>(std::move(found).value(), as_views(inputs, input_count));
    if (Status queued = job->service->worker().submit(job->job, work); !queued) {
      return report(error, queued);
    }
    *submission = new_submission(*job, std::move(work));
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_wait(laneway_submission* submission, int64_t timeout_ns, const laneway_output* outputs,
                 uint32_t output_count, laneway_error* error) {
  return guarded(submission, error, [&] {
    const auto done = submission->work->wait(Duration(timeout_ns));
    if (!done) return report(error, LANEWAY_PENDING, "the iteration is not done yet");
    if (!*done || output_count == 0) return report(error, *done);
    return report(error, submission->work->copy_outputs(as_views(outputs, output_count)));
  });
}

int laneway_cancel(laneway_submission* submission, laneway_error* error) {
  return guarded(submission, error, [&] {
    const auto service = submission->service.lock();
    const auto job = submission->job.lock();
    if (service != nullptr && job != nullptr && service->worker().cancel(*job, submission->work)) {
      return static_cast<int>(LANEWAY_OK);
    }
    const auto done = submission->work->wait(Duration());
    if (done && !*done && done->error().code == ErrorCode::cancelled) {
      return static_cast<int>(LANEWAY_OK);
    }
    return report(error, LANEWAY_REFUSED,
                  done ? "the iteration is done" : "the iteration has begun; wait for it");
  });
}

void laneway_submission_release(laneway_submission* submission) { service_ns::release(submission); }

int laneway_read_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                       void* random_state, laneway_submission** pending, laneway_error* error) {
  return guarded(job, error, [&] {
    const std::span<const laneway_slot_copy> copies(slots, count);
    if (Status valid = service_ns::check_slots(job->job->name, job->slots, copies); !valid) {
      return report(error, valid);
    }
    const auto read = [job = job->job, copies, random_state](const SlotPlaces& places) {
      for (const laneway_slot_copy& copy : copies) {
        if (Status copied = places.read(copy.slot, copy.data, copy.bytes); !copied) return copied;
      }
      if (random_state == nullptr) return Status();
      const std::vector<std::byte> state = job->torch->random_state();
      if (state.size() != LANEWAY_RANDOM_STATE_BYTES) {
        return Status(Error{ErrorCode::internal, "torch's generator has an unexpected size"});
      }
      std::memcpy(random_state, state.data(), state.size());
      return Status();
    };
    return access_state(job, read, /*writes=*/false, pending, error);
  });
}

int laneway_write_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                        const void* random_state, laneway_submission** pending,
                        laneway_error* error) {
  return guarded(job, error, [&] {
    const std::span<const laneway_slot_copy> copies(slots, count);
    if (Status valid = service_ns::check_slots(job->job->name, job->slots, copies); !valid) {
      return report(error, valid);
    }
    const auto write = [job = job->job, copies, random_state](const SlotPlaces& places) {
      // First, because it may be refused: then nothing has changed.
      if (random_state != nullptr) {
        Status set = job->torch->set_random_state(
            {static_cast<const std::byte*>(random_state), LANEWAY_RANDOM_STATE_BYTES});
        if (!set) return set;
      }
      for (const laneway_slot_copy& copy : copies) {
        if (Status written = places.write(copy.slot, copy.data, copy.bytes); !written) {
          return written;
        }
      }
      return Status();
    };
    return access_state(job, write, /*writes=*/true, pending, error);
  });
}

}  // extern "C"
