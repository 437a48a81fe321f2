// Services and jobs of laneway.h over EmbeddedService; iterations and state are in
// c_api_iterations.cc, what an operator and an attached client need in c_api_control.cc.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "lanes/reason.h"
#include "service/api/c_border.h"
#include "service/api/close_at_exit.h"
#include "service/api/job_form.h"
#include "service/api/laneway.h"
#include "service/embedded/embedded.h"
#include "service/embedded/handles.h"

using laneway::Bytes;
using laneway::Duration;
using laneway::Result;
using laneway::service::guarded;
using laneway::service::report;
namespace service_ns = laneway::service;

namespace {

// Before `lane_sms` was appended.
constexpr uint32_t kFirstEmbeddedOptions = 40;
static_assert(offsetof(laneway_embedded_options, lane_sms) == kFirstEmbeddedOptions);

}  // namespace

extern "C" {

int laneway_abi_version(void) { return LANEWAY_ABI_VERSION; }

const char* laneway_torch_version(void) { return LANEWAY_TORCH_VERSION; }

int laneway_embedded_open(const laneway_embedded_options* options, laneway_service** service,
                          laneway_error* error) {
  return guarded(error, [&] {
    if (options == nullptr || service == nullptr || options->size < kFirstEmbeddedOptions) {
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
    if (options->size >= kFirstEmbeddedOptions + sizeof options->lane_sms) {
      wanted.lane_sms = options->lane_sms;
    }
    auto opened = service_ns::EmbeddedService::open(wanted);
    if (!opened) return report(error, opened.error());
    auto handle = std::make_unique<laneway_service>();
    handle->service = std::move(opened).value();
    service_ns::close_at_exit(handle->service);
    *service = handle.release();
    return static_cast<int>(LANEWAY_OK);
  });
}

void laneway_service_close(laneway_service* service) {
  if (service != nullptr && service->owner.is_this()) service->service->close();
}

void laneway_service_release(laneway_service* service) { service_ns::release(service); }

int laneway_service_status(laneway_service* service, char** json, laneway_error* error) {
  return guarded(service, error, [&] {
    const Result<std::string> status = service->service->status();
    return status ? service_ns::give_text(status.value(), json, error)
                  : report(error, status.error());
  });
}

const char* laneway_service_kernels(laneway_service* service) {
  return service != nullptr ? service->service->kernels().c_str() : nullptr;
}

void laneway_free(void* memory) { std::free(memory); }

int laneway_job_create(laneway_service* service, const laneway_job_options* options,
                       const void* graph, uint64_t graph_bytes, laneway_job** job,
                       laneway_error* error) {
  return guarded(service, error, [&] {
    const auto valid = service_ns::check_job_options(options, job != nullptr ? graph : nullptr);
    if (!valid) return report(error, valid);
    service_ns::JobRequest request;
    if (options->name != nullptr) request.name = options->name;
    request.job_class = static_cast<laneway::lanes::JobClass>(options->job_class);
    request.priority = options->priority;
    if (options->weight > 0) request.weight = options->weight;
    request.total_iterations = options->total_iterations;
    for (uint32_t i = 0; i < options->slot_count; ++i) {
      const laneway_slot& slot = options->slots[i];
      request.slots.push_back({.name = slot.name != nullptr ? slot.name : "",
                               .kind = static_cast<laneway::lanes::SlotKind>(slot.kind),
                               .bytes = slot.bytes});
      request.initial.push_back(slot.initial);
    }
    request.random_state = {static_cast<const std::byte*>(options->random_state),
                            options->random_state_bytes};
    request.shared = service_ns::is_shared(*options);
    request.replay = service_ns::replay_of(*options);
    auto made =
        service->service->create_job(request, {static_cast<const std::byte*>(graph), graph_bytes});
    if (!made) return report(error, made.error());
    *job = service_ns::new_job_handle(service->service, std::move(made).value(), request.job_class,
                                      false);
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_job_add_graph(laneway_job* job, const void* graph, uint64_t graph_bytes,
                          uint32_t* index, laneway_error* error) {
  return guarded(job, error, [&] {
    const auto added = job->service->worker().add_graph(
        *job->job, {static_cast<const std::byte*>(graph), graph_bytes});
    if (!added) return report(error, added.error());
    if (index != nullptr) *index = added.value();
    return static_cast<int>(LANEWAY_OK);
  });
}

int laneway_job_drop_graph(laneway_job* job, uint32_t index, laneway_error* error) {
  return guarded(job, error, [&] {
    return report(error, job->service->worker().drop_graph(*job->job, index));
  });
}

int laneway_job_wait(laneway_job* job, int64_t timeout_ns, laneway_error* error) {
  return guarded(job, error, [&] {
    service_ns::Worker& worker = job->service->worker();
    const auto placed = worker.wait_placed(*job->job, Duration(timeout_ns));
    if (placed) return report(error, *placed);
    return report(error, LANEWAY_PENDING,
                  laneway::lanes::reason_text(worker.waiting_reason(*job->job)));
  });
}

void laneway_job_close(laneway_job* job) {
  if (job == nullptr || !job->owner.is_this()) return;
  job->detached = job->attached;
  if (!job->attached) job->service->worker().close_job(job->job);
}

void laneway_job_release(laneway_job* job) { service_ns::release(job); }

int laneway_job_report(laneway_job* job, int with_tapes, char** json, laneway_error* error) {
  return guarded(job, error, [&] {
    const Result<std::string> text = job->service->job_report(*job->job, with_tapes != 0);
    return text ? service_ns::give_text(text.value(), json, error) : report(error, text.error());
  });
}

}  // extern "C"
