// laneway.h over EmbeddedService. Every function contains what its inside may throw: nothing but a
// code and a sentence crosses this border.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "lanes/reason.h"
#include "service/client/laneway.h"
#include "service/embedded/embedded.h"

using laneway::Bytes;
using laneway::Duration;
using laneway::Error;
using laneway::ErrorCode;
using laneway::Result;
using laneway::Status;
using laneway::lanes::InputView;
using laneway::lanes::OutputView;
namespace service_ns = laneway::service;

struct laneway_service {
  std::shared_ptr<service_ns::EmbeddedService> service;
};

struct laneway_job {
  std::shared_ptr<service_ns::EmbeddedService> service;
  service_ns::JobHandle job;
};

struct laneway_submission {
  std::shared_ptr<service_ns::Work> work;
};

namespace {

int code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return LANEWAY_INVALID_ARGUMENT;
    case ErrorCode::invalid_graph: return LANEWAY_INVALID_GRAPH;
    case ErrorCode::out_of_memory: return LANEWAY_OUT_OF_MEMORY;
    case ErrorCode::refused: return LANEWAY_REFUSED;
    case ErrorCode::unavailable: return LANEWAY_UNAVAILABLE;
    case ErrorCode::failed: return LANEWAY_FAILED;
    case ErrorCode::quarantined: return LANEWAY_QUARANTINED;
    case ErrorCode::cancelled: return LANEWAY_CANCELLED;
    case ErrorCode::timed_out: return LANEWAY_TIMED_OUT;
    case ErrorCode::unsupported: return LANEWAY_UNSUPPORTED;
    case ErrorCode::internal: return LANEWAY_INTERNAL;
  }
  return LANEWAY_INTERNAL;
}

int report(laneway_error* error, int code, const std::string& message) {
  if (error != nullptr) {
    error->code = code;
    const size_t length = std::min(message.size(), sizeof(error->message) - 1);
    std::memcpy(error->message, message.data(), length);
    error->message[length] = '\0';
  }
  return code;
}

int report(laneway_error* error, const Error& what) {
  return report(error, code_of(what.code), what.message);
}

int report(laneway_error* error, const Status& status) {
  return status ? LANEWAY_OK : report(error, status.error());
}

// Runs `body`; what it throws becomes LANEWAY_INTERNAL.
template <class Body>
int guarded(laneway_error* error, const Body& body) {
  try {
    return body();
  } catch (const std::exception& thrown) {
    return report(error, LANEWAY_INTERNAL, std::string("unexpected: ") + thrown.what());
  }
}

int give_text(const std::string& text, char** out) {
  *out = static_cast<char*>(std::malloc(text.size() + 1));
  if (*out == nullptr) throw std::bad_alloc();
  std::memcpy(*out, text.c_str(), text.size() + 1);
  return LANEWAY_OK;
}

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
  *pending = new laneway_submission{std::move(work)};
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

int laneway_abi_version(void) { return LANEWAY_ABI_VERSION; }

const char* laneway_torch_version(void) { return LANEWAY_TORCH_VERSION; }

int laneway_embedded_open(const laneway_embedded_options* options, laneway_service** service,
                          laneway_error* error) {
  return guarded(error, [&] {
    if (options == nullptr || service == nullptr ||
        options->size < sizeof(laneway_embedded_options)) {
      return report(error, LANEWAY_INVALID_ARGUMENT,
                    "laneway_embedded_open needs options (with their size set) and a place for "
                    "the service");
    }
    if (options->torch_version != nullptr &&
        std::strcmp(options->torch_version, LANEWAY_TORCH_VERSION) != 0) {
      return report(error, LANEWAY_UNSUPPORTED,
                    std::string("this library was built against torch ") + LANEWAY_TORCH_VERSION +
                        ", the process has torch " + options->torch_version +
                        ": install that version, or build Laneway against yours");
    }
    service_ns::EmbeddedOptions wanted;
    wanted.pool = Bytes(static_cast<int64_t>(options->pool_bytes));
    wanted.lanes = options->lanes;
    if (options->policy != nullptr) wanted.policy = options->policy;
    if (options->device != nullptr) wanted.device = options->device;
    auto opened = service_ns::EmbeddedService::open(wanted);
    if (!opened) return report(error, opened.error());
    *service = new laneway_service{std::move(opened).value()};
    return static_cast<int>(LANEWAY_OK);
  });
}

void laneway_service_close(laneway_service* service) {
  if (service != nullptr) service->service->close();
}

void laneway_service_release(laneway_service* service) {
  delete service;  // tidy: allow raw-delete (the handle is the C caller's to release)
}

int laneway_service_status(laneway_service* service, char** json, laneway_error* error) {
  return guarded(error, [&] {
    const Result<std::string> status = service->service->status();
    return status ? give_text(status.value(), json) : report(error, status.error());
  });
}

void laneway_free(void* memory) { std::free(memory); }

int laneway_job_create(laneway_service* service, const laneway_job_options* options,
                       const void* graph, uint64_t graph_bytes, laneway_job** job,
                       laneway_error* error) {
  return guarded(error, [&] {
    if (options == nullptr || options->size < sizeof(laneway_job_options) || graph == nullptr ||
        job == nullptr || options->job_class > LANEWAY_BEST_EFFORT) {
      return report(error, LANEWAY_INVALID_ARGUMENT,
                    "laneway_job_create needs options (with their size set and a class of "
                    "laneway_class), a graph and a place for the job");
    }
    service_ns::JobRequest request;
    if (options->name != nullptr) request.name = options->name;
    request.job_class = static_cast<laneway::lanes::JobClass>(options->job_class);
    request.priority = options->priority;
    if (options->weight > 0) request.weight = options->weight;
    request.total_iterations = options->total_iterations;
    for (uint32_t i = 0; i < options->slot_count; ++i) {
      const laneway_slot& slot = options->slots[i];
      if (slot.kind > LANEWAY_CONSTANT) {
        return report(error, LANEWAY_INVALID_ARGUMENT,
                      "slot " + std::to_string(i) + " has no kind of laneway_slot_kind");
      }
      request.slots.push_back({.name = slot.name != nullptr ? slot.name : "",
                               .kind = static_cast<laneway::lanes::SlotKind>(slot.kind),
                               .bytes = slot.bytes});
      request.initial.push_back(slot.initial);
    }
    request.random_state = {static_cast<const std::byte*>(options->random_state),
                            options->random_state_bytes};
    auto made =
        service->service->create_job(request, {static_cast<const std::byte*>(graph), graph_bytes});
    if (!made) return report(error, made.error());
    *job = new laneway_job{service->service, std::move(made).value()};
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_job_add_graph(laneway_job* job, const void* graph, uint64_t graph_bytes,
                          uint32_t* index, laneway_error* error) {
  return guarded(error, [&] {
    const auto added = job->service->worker().add_graph(
        *job->job, {static_cast<const std::byte*>(graph), graph_bytes});
    if (!added) return report(error, added.error());
    if (index != nullptr) *index = added.value();
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_job_drop_graph(laneway_job* job, uint32_t index, laneway_error* error) {
  return guarded(
      error, [&] { return report(error, job->service->worker().drop_graph(*job->job, index)); });
}

int laneway_job_wait(laneway_job* job, int64_t timeout_ns, laneway_error* error) {
  return guarded(error, [&] {
    service_ns::Worker& worker = job->service->worker();
    const auto placed = worker.wait_placed(*job->job, Duration(timeout_ns));
    if (placed) return report(error, *placed);
    return report(error, LANEWAY_PENDING,
                  laneway::lanes::reason_text(worker.waiting_reason(*job->job)));
  });
}

void laneway_job_close(laneway_job* job) {
  if (job != nullptr) job->service->worker().close_job(job->job);
}

void laneway_job_release(laneway_job* job) {
  delete job;  // tidy: allow raw-delete (the handle is the C caller's to release)
}

int laneway_job_report(laneway_job* job, int with_tapes, char** json, laneway_error* error) {
  return guarded(error, [&] {
    const Result<std::string> text = job->service->job_report(*job->job, with_tapes != 0);
    return text ? give_text(text.value(), json) : report(error, text.error());
  });
}

int laneway_run(laneway_job* job, uint32_t graph, const laneway_input* inputs, uint32_t input_count,
                const laneway_output* outputs, uint32_t output_count, laneway_submission** pending,
                laneway_error* error) {
  return guarded(error, [&] {
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
  return guarded(error, [&] {
    const auto views = as_views(inputs, input_count);
    auto found = find_callable(job, graph, views);
    if (!found) return report(error, found.error());
    auto work = std::make_shared<service_ns::Work>(std::move(found).value(), views);
    if (Status queued = job->service->worker().submit(job->job, work); !queued) {
      return report(error, queued);
    }
    *submission = new laneway_submission{std::move(work)};
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_wait(laneway_submission* submission, int64_t timeout_ns, const laneway_output* outputs,
                 uint32_t output_count, laneway_error* error) {
  return guarded(error, [&] {
    const auto done = submission->work->wait(Duration(timeout_ns));
    if (!done) return report(error, LANEWAY_PENDING, "the iteration is not done yet");
    if (!*done || output_count == 0) return report(error, *done);
    return report(error, submission->work->copy_outputs(as_views(outputs, output_count)));
  });
}

void laneway_submission_release(laneway_submission* submission) {
  delete submission;  // tidy: allow raw-delete (the handle is the C caller's to release)
}

int laneway_read_state(laneway_job* job, const laneway_slot_copy* slots, uint32_t count,
                       void* random_state, laneway_submission** pending, laneway_error* error) {
  return guarded(error, [&] {
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
  return guarded(error, [&] {
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
