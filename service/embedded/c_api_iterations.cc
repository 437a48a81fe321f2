// Iterations and state of laneway.h over the worker of an EmbeddedService.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/client/laneway.h"
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
                                              std::span<const InputView> inputs) {
  Result<service_ns::GraphHandle> found = job->service->worker().find_graph(*job->job, number);
  if (!found) return found;
  const laneway::lanes::Graph& graph = found.value()->torch->graph();
  if (inputs.size() != graph.inputs.size()) {
    return Error{ErrorCode::invalid_argument, "graph '" + graph.name + "' takes " +
                                                  std::to_string(graph.inputs.size()) +
                                                  " inputs, got " + std::to_string(inputs.size())};
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const laneway::lanes::Value& value = graph.values[graph.inputs[i]];
    if (value.kind != laneway::lanes::ValueKind::tensor) continue;
    const uint64_t wanted = graph.storages[value.storage].bytes;
    if (inputs[i].bytes == wanted && (wanted == 0 || inputs[i].data != nullptr)) continue;
    return Error{ErrorCode::invalid_argument,
                 "input " + std::to_string(i) + " of graph '" + graph.name + "' has " +
                     std::to_string(inputs[i].bytes) + " bytes, the graph was captured with " +
                     std::to_string(wanted) + "; capture again for this shape and dtype"};
  }
  return found;
}

// Outputs that do not fit would only be noticed behind the commit phase.
Status check_outputs(const laneway::lanes::Graph& graph, std::span<const OutputView> outputs) {
  if (outputs.size() != graph.outputs.size()) {
    return Error{ErrorCode::invalid_argument,
                 "graph '" + graph.name + "' has " + std::to_string(graph.outputs.size()) +
                     " outputs, room was given for " + std::to_string(outputs.size())};
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint64_t wanted = service_ns::output_bytes(graph, graph.outputs[i]);
    if (outputs[i].bytes == wanted && (wanted == 0 || outputs[i].data != nullptr)) continue;
    return Error{ErrorCode::invalid_argument, "output " + std::to_string(i) + " of graph '" +
                                                  graph.name + "' has " + std::to_string(wanted) +
                                                  " bytes, room was given for " +
                                                  std::to_string(outputs[i].bytes)};
  }
  return {};
}

// Queues or runs an access to the state of `job`.
int access_state(laneway_job* job, service_ns::StateAccess access, laneway_submission** pending,
                 laneway_error* error) {
  auto work = std::make_shared<service_ns::Work>(std::move(access));
  if (Status queued = job->service->worker().access_state(job->job, work); !queued) {
    return report(error, queued);
  }
  if (const auto done = work->wait(Duration())) return report(error, *done);
  *pending = new laneway_submission{std::move(work), {}};
  return LANEWAY_PENDING;
}

// The slots that are named exist and have the sizes that are given.
Status check_slots(const laneway_job* job, std::span<const laneway_slot_copy> slots) {
  const laneway::pipeline::ImageLayout& layout = job->job->torch->layout();
  for (const laneway_slot_copy& copy : slots) {
    if (copy.slot >= layout.slot_count()) {
      return Error{ErrorCode::invalid_argument,
                   "job '" + job->job->name + "' has " + std::to_string(layout.slot_count()) +
                       " slots; there is none numbered " + std::to_string(copy.slot)};
    }
    if (copy.bytes != layout.slot(copy.slot).bytes) {
      return Error{ErrorCode::invalid_argument, "slot '" + layout.slot(copy.slot).name + "' has " +
                                                    std::to_string(layout.slot(copy.slot).bytes) +
                                                    " bytes, " + std::to_string(copy.bytes) +
                                                    " were given"};
    }
  }
  return {};
}

}  // namespace

extern "C" {

int laneway_run(laneway_job* job, uint32_t graph, const laneway_input* inputs, uint32_t input_count,
                const laneway_output* outputs, uint32_t output_count, laneway_submission** pending,
                laneway_error* error) {
  return guarded(job, error, [&] {
    const auto views = as_views(inputs, input_count);
    const auto found = find_callable(job, graph, views);
    if (!found) return report(error, found.error());
    const auto room = as_views(outputs, output_count);
    const Status fit = check_outputs(found.value()->torch->graph(), room);
    if (!fit) return report(error, fit);
    const auto done = job->service->worker().try_run(*job->job, *found.value(), views, room);
    if (done) return report(error, *done);
    const int queued = laneway_submit(job, graph, inputs, input_count, pending, error);
    return queued == LANEWAY_OK ? static_cast<int>(LANEWAY_PENDING) : queued;
  });
}

int laneway_submit(laneway_job* job, uint32_t graph, const laneway_input* inputs,
                   uint32_t input_count, laneway_submission** submission, laneway_error* error) {
  return guarded(job, error, [&] {
    const auto views = as_views(inputs, input_count);
    auto found = find_callable(job, graph, views);
    if (!found) return report(error, found.error());
    auto work = std::make_shared<service_ns::Work>(std::move(found).value(), views);
    if (Status queued = job->service->worker().submit(job->job, work); !queued) {
      return report(error, queued);
    }
    *submission = new laneway_submission{std::move(work), {}};
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

void laneway_submission_release(laneway_submission* submission) { service_ns::release(submission); }

int laneway_read_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                       void* random_state, laneway_submission** pending, laneway_error* error) {
  return guarded(job, error, [&] {
    const std::span<const laneway_slot_copy> copies(slots, count);
    if (Status valid = check_slots(job, copies); !valid) return report(error, valid);
    const auto read = [job = job->job, copies, random_state](std::byte* image) {
      for (const laneway_slot_copy& copy : copies) {
        const Bytes offset = job->torch->layout().offset(copy.slot);
        if (copy.bytes > 0) std::memcpy(copy.data, image + offset.count(), copy.bytes);
      }
      if (random_state == nullptr) return Status();
      const std::vector<std::byte> state = job->torch->random_state();
      if (state.size() != LANEWAY_RANDOM_STATE_BYTES) {
        return Status(Error{ErrorCode::internal, "torch's generator has an unexpected size"});
      }
      std::memcpy(random_state, state.data(), state.size());
      return Status();
    };
    return access_state(job, read, pending, error);
  });
}

int laneway_write_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                        const void* random_state, laneway_submission** pending,
                        laneway_error* error) {
  return guarded(job, error, [&] {
    const std::span<const laneway_slot_copy> copies(slots, count);
    if (Status valid = check_slots(job, copies); !valid) return report(error, valid);
    const auto write = [job = job->job, copies, random_state](std::byte* image) {
      for (const laneway_slot_copy& copy : copies) {
        const Bytes offset = job->torch->layout().offset(copy.slot);
        if (copy.bytes > 0) std::memcpy(image + offset.count(), copy.data, copy.bytes);
      }
      if (random_state == nullptr) return Status();
      return job->torch->set_random_state(
          {static_cast<const std::byte*>(random_state), LANEWAY_RANDOM_STATE_BYTES});
    };
    return access_state(job, write, pending, error);
  });
}

}  // extern "C"
